"""Orchestration loops: one agent that works through a plan with workers and tools.

``machine`` is its table, ``view`` shows a run, and ``python`` is the Python API with the performers.
"""
