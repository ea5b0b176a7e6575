"""Plans without a model: a plain imperative request, matched to the skills of a fleet.

``planner`` the planner port over ``planning``: a request as ``tokens`` and ``clauses``, each with its ``placement`` on the
fleet (``mentions``, ``arguments``, ``vocabulary``, ``spoken_condition``), or a ``refusal``.
"""
