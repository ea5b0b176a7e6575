"""The world in a box: the production machines under virtual time, seeded schedules and faults.

For tests of yours (docs/testing.md): ``world`` a run with all around it · ``device``, ``planner``, ``people``, ``program`` what
is around it, which ``given`` checks · ``ending`` how it came out · ``recovery`` a run killed at every entry · ``scripted_model`` a
model by a script · ``pipeline`` the whole planner in a world. Beneath: ``loop`` virtual time, ``clock``, ``desk`` how people reach
it, ``crew`` and ``process`` who drives it, ``model_wire`` · ``invariants`` what may never be, and ``checks`` that ask it after
every entry.
"""
