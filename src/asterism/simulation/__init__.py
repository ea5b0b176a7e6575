"""The world in a box: the production machines under virtual time, seeded schedules and faults.

For tests of yours (docs/testing.md): ``world`` a run with all around it · ``device``, ``planner``, ``people``, ``program`` what
is around it · ``ending`` how it came out · ``scripted_model`` a model by a script · ``pipeline`` the whole planner in a world.
Beneath: ``loop`` virtual time, ``clock``, ``desk``, ``process``, ``model_wire``.

For the search (docs/reliability.md): ``profiles`` and ``shapes`` (``loop_shapes``, ``flow_shapes``, ``random_model``) make a ``setting`` of
a seed · ``checkers`` watch it (``invariants``, ``watched``) · ``campaign`` lives seed after seed · ``story``, ``trimmed`` and ``shrinking``
tell the shortest that breaks · ``exploration`` walks small worlds whole (``small_run`` and its kin).
"""
