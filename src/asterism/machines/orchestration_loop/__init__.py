"""The orchestration loop: one agent that works through a plan with workers and tools.

- ``table``: the machine; ``planning``, ``steps``, ``model_rounds``, ``inquiries``, ``reflection``,
  ``run_end`` and ``fork``: the parts of its moves.
- ``model``: states, steps, findings and options; ``events`` and ``effects``; ``memory``.
- ``definition``: start of a run; ``view``: input of the supervising functions; ``requests``: the
  requests to performers.
"""
