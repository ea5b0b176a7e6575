"""The HTTP API of the runs of one database.

``app`` assembles it. ``guard`` looks at every request first: host, origin, token, size. ``identity`` says what a token may
do, ``limits`` how often, ``problems`` words all errors. ``context`` is shared by the resources, and ``models`` are their
JSON. The resources: ``runs``, ``journals``, ``streams`` (by ``feeds`` and ``changes``),
``commands``, ``inquiries``, ``conversations``, ``files``, ``schedules``, ``events``, ``fleet``,
``attempts`` (by ``attempt_history``), ``tokens``, ``logins``, ``status``. ``pages`` delivers the console.
"""
