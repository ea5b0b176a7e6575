"""English for the offline planner and the skill ranker, without a model. Pure.

- ``vocabulary``: lists of known words; ``tokens``: splitting of texts.
- ``stems``: words without endings, and synonymous verbs.
"""
