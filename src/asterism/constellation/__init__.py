"""The live DAG of tasks: its model, its conditions, the edits it takes, what it means on a fleet. Pure.

``task``, ``line``, ``constellation`` the model · ``graph``, ``analysis`` its shape · ``condition``, ``references`` what is asked of
results · ``documents`` what people write · ``edits``, ``batch``, ``changes`` how it is changed · ``profile``, ``skill_ranker``,
``resolution``, ``nesting`` what it means on a fleet · ``constellation_snapshot`` it in a snapshot.
"""
