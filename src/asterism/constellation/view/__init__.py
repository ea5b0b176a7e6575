"""A constellation run as rows and as lines. Pure.

- ``view`` makes the rows and the log, with ``words``; ``plan_history`` lists the decisions.
- ``history`` reads a run for the commands: ``graph`` draws the DAG, ``task_lines`` adds the status of each task,
  ``task_details`` its log and its items; ``metrics`` measures the run.
- ``proposals`` renders questions to people, and ``show`` joins all for the commands, with the reasons behind each task.
"""
