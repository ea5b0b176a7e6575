"""The flow agent: a conversation that collects fields, asks for approval, and then acts.

``events`` its eight states, what happens to it and what it asks for · ``starting`` how another run starts it · ``memory`` what it
remembers · ``moves`` what people say, what handlers did, whose turn it is · ``children`` runs below it · ``table`` the machine.
"""
