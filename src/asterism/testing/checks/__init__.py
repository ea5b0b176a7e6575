"""Checks of the invariants after every entry of a world (docs/reliability.md).

``checker`` observes a world · ``run_checks`` one run of any machine; ``constellation_checks``, ``loop_checks`` and ``flow_checks``
one of each · ``view_checks`` its view rows. They implement the rules a second time, apart from the code under test.
"""
