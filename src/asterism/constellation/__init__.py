"""Constellations: DAGs of tasks across devices.

``model`` is the DAG as data, ``machine`` the agent that plans and replans it, ``planner`` asks models for plans, ``view`` shows a
run, ``python`` is the Python API with the performers, and ``form`` is what the engine gets.
"""
