"""Deterministic simulation: the production machines under virtual time, seeded schedules and faults.

For your own tests (docs/testing.md): ``world`` one run with its surroundings · ``device``, ``remote``, ``planner``, ``plans``, ``people``,
``program`` the surroundings, whose arguments ``validation`` checks · ``ending`` the final state · ``recovery`` a crash at every entry,
``pytest_plugin`` both in pytest ·
``scripted_model`` a model that follows a script · ``pipeline`` the whole planner in a world. Beneath: ``loop`` virtual time,
``clock``, ``simulated_client`` the client that people use, ``driver_processes`` and ``process`` the processes that drive runs,
``world_devices``, ``model_wire`` · ``invariants``, and ``checks`` that evaluate them after every entry.
"""
