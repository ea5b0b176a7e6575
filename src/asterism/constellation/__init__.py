"""Constellations: DAGs of tasks across devices.

``model`` is the DAG as data, ``language`` the English by which it ranks skills, ``machine`` the agent that plans and replans it,
``planner`` asks models for plans, ``view`` shows a run, ``python`` is the Python API with the performers, ``requirements``
what a plan needs on this computer, ``form`` what the engine gets, and ``phrases`` has the words of reasons.
"""

from asterism.constellation import phrases

__all__ = ["phrases"]
