"""English for the offline planner, the skill ranker and conversations, without a model. Pure.

- ``vocabulary``: lists of known words; ``tokens``: splitting of texts.
- ``stems``: words without endings, and synonymous verbs; ``replies``: the meaning of a person's
  answer.
"""
