"""The kinds of devices.

- ``local`` is a device whose skills run in processes on this computer; ``here`` (``plan_functions``) is that of the functions
  of this program; ``child`` is one whose tasks are runs of their own.
- The packages ``ssh``, ``mcp`` and ``a2a`` are remote devices, one per protocol. ``resources`` holds their connections,
  ``addresses`` decides where requests may go, and ``remote_text`` cleans text that comes from elsewhere.
- ``registry`` lists the kinds that perform attempts.
"""
