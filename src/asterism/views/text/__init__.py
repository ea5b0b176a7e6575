"""A run as lines of text and as JSON data: what the commands print about a run of any form, without a terminal.

``show`` prints a run in full, ``runs`` a list, ``fleet`` the devices. ``history`` reads a run of any machine; that of a
form extends it. ``questions`` has what is asked. A ``styled_line`` has parts with styles.
"""
