"""Small worlds walked whole, state by state (docs/reliability.md).

``space`` the states and the moves between them · ``small_run`` what the small worlds share, and of each machine ``small_worlds``,
``small_loops``, ``small_flows``.
"""
