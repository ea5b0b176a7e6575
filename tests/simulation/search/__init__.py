"""Random search for a seed that violates an invariant (docs/reliability.md).

``profiles`` and ``shapes`` (``loop_shapes``, ``flow_shapes``, ``random_model``) build a ``setting`` from a seed · ``campaign`` runs
seed after seed · ``scenario``, ``reduced_setting`` and ``shrinking`` find the shortest failing scenario.
"""
