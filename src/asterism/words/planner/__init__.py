"""Plan without a model: match a plain imperative request to the skills of a fleet.

``planner`` implements the planner port. A request is split into ``clauses``, after ``rephrasing`` of
spoken forms; each gets its ``placement`` on the fleet (``mentions``, ``arguments``,
``spoken_condition``) or a ``refusal``, with ``advice``.
"""
