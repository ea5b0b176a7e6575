"""Devices, the fleet file that lists them, and the queue that gives them attempts.

- ``fleet`` reads the fleet file, and ``python_fleet`` declares the same devices in a program.
  ``dispatcher`` (``lane``, ``queue``, ``throttle``) decides when a device gets an attempt;
  ``device_lanes`` (``watch``) reports lost and found devices to the runs; ``remote_stop`` ends
  attempts on remote devices; ``places`` counts attempts over all processes.
- ``local`` is a device whose skills run in processes on this computer. ``skill``, ``source`` and
  ``command`` describe its skills; ``pool``, ``handle``, ``worker``, ``worker_protocol`` and
  ``log_relay`` run them; ``process`` and ``worker_ledger`` clean up after a killed owner.
- ``here`` (``function_source``, ``thread``) is the device of the functions of this program.
- ``mcp`` (``mcp_entry``, ``mcp_device``, ``mcp_leg``, ``mcp_calls``, ``mcp_tools``, ``mcp_questions``,
  ``mcp_results``) is a device whose skills are the tools of an MCP server. ``mcp_server``
  (``mcp_process``, ``mcp_http``) connects to servers, also for loops; ``resources`` holds connections.
- ``child`` is a device whose tasks are runs of their own.
"""
