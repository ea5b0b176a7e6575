"""The flow agent: a conversation that collects fields, asks for approval, and then acts.

- ``table``: the machine; ``moves`` and ``children``: the parts of its moves.
- ``events``: its eight states, events and effects; ``memory`` and ``states``: its memory.
- ``definition``: start by another run; ``requests``: the requests to performers.
"""
