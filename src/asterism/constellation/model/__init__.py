"""The constellation: a live DAG of tasks, its edits, and its checks against a fleet. Pure.

- ``task``, ``wait``, ``fan_out``, ``line``, ``constellation``: the model; ``graph`` and ``analysis``: its
  shape; ``specs``: a new task or dependency from its specification.
- ``condition``: expressions over results; ``condition_names``: a check of names.
- ``documents`` and ``parameters``: plans as people and models write them;
  ``edits``, ``batch`` and ``changes``: edits of a constellation.
- ``skill_ranker``, ``resolution`` and ``nesting``: checks against devices and skills;
  ``secret_use``: where a reference to a secret may stand.
"""
