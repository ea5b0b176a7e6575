"""The constellation agent: plans a request as a DAG across devices, and replans on its results.

- ``table``: the machine, with its states and rows.
- ``events``: its states, start definition, events and effects; ``memory``: its memory, with the
  open decision; ``requests``: the requests to planners and devices.
- ``planner_requests``: asking the planner; ``planning``: applying a plan or an edit; ``approval``:
  approval by a person.
- ``tasks``: starting and ending attempts; ``items``: the items of a task with ``for_each``;
  ``retry``: failed tasks again; ``child_runs``: attempts that child runs make;
  ``device_question``: questions of devices; ``run_end``: the end of a run.
"""
