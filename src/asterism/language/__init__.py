"""English as the offline planner, the ranker and conversations read it, where no model is asked. Pure.

``vocabulary`` the words, one list for each kind · ``tokens`` a text taken apart · ``stems`` words without their endings, and verbs
that mean the same · ``replies`` what a person's answer means.
"""
