"""Plans without a model: a plain imperative request, matched to the skills of a fleet.

``planner`` the planner port over ``planning``: a request as ``clauses``, each with its ``placement`` on the fleet
(``mentions``, ``arguments``, ``spoken_condition``), or a ``refusal``.
"""
