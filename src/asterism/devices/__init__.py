"""Devices, the fleet file that lists them, and the queue that gives them attempts.

- ``fleet`` reads the fleet file, and ``python_fleet`` declares the same devices in a program.
  ``dispatcher`` (``lane``, ``queue``, ``throttle``) decides when a device gets an attempt;
  ``device_lanes`` (``watch``) reports lost and found devices to the runs; ``remote_stop`` ends
  attempts on remote devices; ``places`` counts attempts over all processes; ``unopened`` is a
  device that cannot be opened.
- ``local`` is a device whose skills run in processes on this computer. ``skill``, ``source`` and
  ``command`` describe its skills; ``pool``, ``handle``, ``worker``, ``worker_protocol`` and
  ``log_relay`` run them; ``process`` and ``worker_ledger`` clean up after a killed owner.
- ``ssh``, ``mcp`` and ``a2a`` are packages, one per protocol of remote devices. ``resources`` holds
  connections, ``addresses`` decides where requests may go, ``remote_text`` cleans text that comes
  from elsewhere, and ``kinds`` lists all kinds.
- ``fleet_addition`` adds a device to a fleet file, and ``credentials`` refuses passwords in it.
- ``task_log`` takes what attempts print to the store: ``log_relay`` from workers, ``printed`` from code
  of this process, within ``logged_performers``. ``secrets`` finds the values of secrets, and
  ``masking`` masks them; ``remote_secrets`` does both for attempts on remote devices.
- ``attempt_files`` copies the files that an attempt takes, and stores those that it returns.
  ``file_text`` reads text files in loops and conversations.
- ``here`` (``function_source``, ``plan_functions``, ``thread``) is the device of the functions of this
  program.
- ``child`` is a device whose tasks are runs of their own.
"""
