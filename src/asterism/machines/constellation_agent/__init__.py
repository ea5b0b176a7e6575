"""The constellation agent: plans a request as a DAG across devices, replans on what comes back.

``events`` what happens to it and what it asks for · ``memory`` what it remembers · ``planning`` how a
plan or an edit is taken · ``tasks`` how attempts start and end · ``nested`` those that child runs make ·
``ending`` how it ends · ``table`` the machine.
"""
