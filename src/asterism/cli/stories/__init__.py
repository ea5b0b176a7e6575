"""Journals drawn: what ``asterism.views`` reads in them, as lines of rich text.

``story`` a journal read through its view, and of each machine ``constellation_story``, ``loop_story``, ``flow_story``, of which ``telling``
chooses one · ``metrics`` what it took · ``drawing`` a DAG with lines, and ``picture``
with what there is to say of its tasks · ``proposals`` what a person is asked to approve.
"""
