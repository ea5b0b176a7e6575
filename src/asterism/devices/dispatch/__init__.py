"""When a device gets an attempt.

``dispatcher`` (``lane``) decides when a device starts an attempt, and reports lost and found devices to the runs, ``remote``
watches remote devices and ends attempts on them, and ``places`` counts attempts over all processes.
"""
