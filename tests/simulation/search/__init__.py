"""The search for a seed that breaks something (docs/reliability.md).

``profiles`` and ``shapes`` (``loop_shapes``, ``flow_shapes``, ``random_model``) make a ``setting`` of a seed · ``campaign`` lives seed
after seed · ``story``, ``trimmed`` and ``shrinking`` tell the shortest that breaks.
"""
