"""The world in a box: the production machines under virtual time, seeded schedules and faults.

For tests of yours (docs/testing.md): ``world`` a run with all around it · ``device``, ``planner``, ``people``, ``program`` what
is around it, which ``given`` checks · ``ending`` how it came out · ``scripted_model`` a model by a script · ``pipeline`` the
whole planner in a world. Beneath: ``loop`` virtual time, ``clock``, ``desk`` how people reach it, ``crew`` and ``process`` who
drives it, ``model_wire``.

For the search (docs/reliability.md): ``profiles`` and ``shapes`` (``loop_shapes``, ``flow_shapes``, ``random_model``) make a ``setting`` of
a seed · ``checkers`` watch it by the ``invariants`` (``watched``, and of each machine ``watched_constellation``, ``watched_loop``,
``watched_flow``) · ``campaign`` lives seed after seed · ``story``, ``trimmed`` and ``shrinking`` tell the shortest that breaks ·
``exploration`` walks small worlds whole (``small_run``, and of each machine ``small_worlds``, ``small_loops``, ``small_flows``).
"""
