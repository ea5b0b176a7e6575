"""The constellation agent: plans a request as a DAG across devices, and replans on its results.

- ``table``: the machine, with its states and rows; ``device_events``: news from devices; ``forks``:
  the moves of a fork.
- ``events``: its states, events and effects; ``definition``: its start by another run; ``memory``:
  its memory, with the open decision; ``requests``: the requests to planners and devices.
- ``planner_requests``: asking the planner; ``planning``: applying a plan or an edit; ``approval``:
  approval by a person.
- ``guarding``: what guards say about tasks; ``tasks``: starting and ending attempts; ``questions``
  and ``answers``: questions to people about them, and their answers; ``stopping``: cancelling
  attempts; ``items``: the items of a task with ``for_each``; ``retry``: failed tasks again;
  ``child_runs``: attempts that child runs make; ``run_end``: the end of a run;
  ``waits``: tasks that wait for a time.
- ``task_lifecycle``: the table of a task; ``task_coupling``: what its new status does to others.
"""
