"""The orchestration loop: one agent that works through a plan with workers and tools.

- ``table``: the machine; ``planning``, ``steps``, ``inquiries`` and ``reflection``: the parts of its
  moves.
- ``model``: states, steps, findings and options; ``events``, with the start definition, and
  ``effects``; ``memory``.
- ``view``: input of the supervising functions; ``requests``: the requests to performers.
"""
