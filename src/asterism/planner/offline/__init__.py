"""Plan without a model: match a plain imperative request to the skills of a fleet.

``planner`` implements the planner port. A request is split into ``clauses``; each gets its
``placement`` on the fleet (``mentions``, ``arguments``, ``spoken_condition``) or a ``refusal``.
"""
