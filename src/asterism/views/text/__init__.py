"""A run as lines of text and as JSON data: everything that the commands print, without a terminal.

``show`` prints a run in full, ``why`` the reasons behind one task, ``runs`` a list, ``fleet`` the devices.
``history`` reads a run of any machine; ``constellation``, ``loop`` and ``flow`` extend it, and ``registry`` chooses
among them. ``graph`` draws a DAG, ``task_lines`` adds the status of each task, ``task_details`` its log and
``item_lines`` its items, ``metrics`` measures a run, and ``proposals`` renders questions to people. A ``styled_line``
has parts with styles. ``rows`` are the rows of a store that are shown.
"""
