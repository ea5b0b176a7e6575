"""Orchestration loops: one agent that works through a plan with workers and tools.

``machine`` is its table, ``view`` shows a run, ``python`` is the Python API with the performers, and ``form`` is
what the engine gets. ``phrases`` has the words of its phrases.
"""

from asterism.loop import phrases

__all__ = ["phrases"]
