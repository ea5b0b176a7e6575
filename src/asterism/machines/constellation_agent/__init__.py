"""The constellation agent: plans a request as a DAG across devices, and replans on its results.

- ``table``: the machine, with its states and rows.
- ``events``: its states, events and effects; ``memory``: its memory; ``requests``: the requests to
  planners and devices.
- ``planning_state``: the open decision; ``planner_requests``: asking the planner; ``planning``:
  applying a plan or an edit; ``approval``: approval by a person; ``previous_rounds``: earlier
  rounds as context for the planner.
- ``tasks``: starting and ending attempts; ``nested_runs``: attempts that child runs make.
- ``definition``: start by another run; ``fork``: copied runs; ``run_end``: the end of a run.
"""
