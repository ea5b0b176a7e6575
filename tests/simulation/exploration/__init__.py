"""Exhaustive exploration of small worlds, state by state (docs/reliability.md).

``space`` states and moves · ``small_run`` the common part of the small worlds; ``small_worlds``, ``small_loops`` and
``small_flows`` those of each machine.
"""
