"""The kinds of devices.

- ``local`` is a device whose skills run in processes on this computer; ``here`` has that of the functions of this program,
  and those whose tasks are runs of their own.
- The packages ``ssh``, ``mcp`` and ``a2a`` are remote devices, one per protocol. ``remote`` has what they have in common, and
  ``addresses`` decides where requests may go.
- ``registry`` finds kinds by name, also those of installed packages.
"""
