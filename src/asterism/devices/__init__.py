"""Devices, the fleet file that lists them, and the queue that gives them attempts.

- ``fleet`` reads the fleet file, and ``python_fleet`` declares the same devices in a program.
  ``dispatcher`` (``queue``, ``throttle``) decides when a device gets an attempt, and reports lost
  and found devices to the runs; ``places`` counts attempts over all processes.
- ``local`` is a device whose skills run in processes on this computer. ``skill``, ``source`` and
  ``command`` describe its skills; ``pool``, ``handle``, ``worker``, ``worker_protocol`` and
  ``log_relay`` run them; ``process`` and ``worker_ledger`` clean up after a killed owner.
- ``task_log`` takes what attempts print to the store: ``log_relay`` from workers, ``printed`` from code
  of this process, within ``logged_performers``. ``secrets`` finds the values of secrets, and
  ``masking`` masks them.
- ``here`` (``function_source``, ``thread``) is the device of the functions of this program.
- ``child`` is a device whose tasks are runs of their own.
"""
