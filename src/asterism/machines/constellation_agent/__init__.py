"""The constellation agent: plans a request as a DAG across devices, replans on what comes back.

``events`` what happens to it and what it asks for · ``definition`` how another run starts it · ``memory`` what it remembers ·
``planning_state`` what it is deciding · ``planner_requests`` how the planner is asked · ``planning`` how a plan or an edit is taken ·
``approval`` by a person first · ``tasks`` how attempts start and end · ``nested_runs`` those that child runs make ·
``previous_rounds`` what a planner is told of before · ``requests`` what planners and devices are asked · ``fork`` what a fork means ·
``run_end`` how it ends · ``table`` the machine.
"""
