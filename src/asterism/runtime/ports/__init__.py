"""What the runtime needs of the world, and nothing of how it is done.

``store`` where journals are · ``performer`` who performs effects · ``observer`` who watches · ``device`` who carries out attempts ·
``planner`` who plans. Stores and devices have one contract suite each in ``tests/contracts``, run on every adapter.
"""
