"""The flow agent: a conversation that collects fields, asks for approval, and then acts.

- ``table``: the machine; ``moves``: the parts of its moves; ``memory``: its memory.
- ``events``: its eight states, start definition, events and effects; ``requests``: the requests to
  performers.
"""
