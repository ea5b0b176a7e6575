"""When a device gets an attempt.

``dispatcher`` (``lane``, ``queue``) decides when a device starts an attempt, ``device_lanes`` (``watch``) reports lost and
found devices to the runs, ``remote_stop`` ends attempts on remote devices, and ``places`` counts attempts over all
processes.
"""
