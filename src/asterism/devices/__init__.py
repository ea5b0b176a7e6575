"""Devices, the fleet file that lists them, and the queue that gives them attempts.

- ``fleet`` reads the fleet file, and ``python_fleet`` declares the same devices in a program.
  ``dispatcher`` (``lane``, ``queue``, ``throttle``) decides when a device gets an attempt;
  ``device_lanes`` (``watch``) reports lost and found devices to the runs; ``remote_stop`` ends
  attempts on remote devices; ``places`` counts attempts over all processes.
- ``local`` is a device whose skills run in processes on this computer. ``skill``, ``source`` and
  ``command`` describe its skills; ``pool``, ``handle``, ``worker``, ``worker_protocol`` and
  ``log_relay`` run them; ``process`` and ``worker_ledger`` clean up after a killed owner.
- ``ssh`` is a device whose programs run on another computer: ``ssh_script`` has the scripts that its
  host runs, and ``ssh_connection`` the connections. ``kinds`` lists the kinds that perform attempts.
- ``task_log`` takes what attempts print to the store: ``log_relay`` from workers, ``printed`` from code
  of this process, within ``logged_performers``. ``secrets`` finds the values of secrets, and
  ``masking`` masks them.
- ``attempt_files`` copies the files that an attempt takes, and stores those that it returns.
- ``here`` (``function_source``, ``thread``) is the device of the functions of this program.
- ``a2a`` is a device whose attempts are tasks of an A2A agent (``a2a_device``); ``a2a_client`` calls
  the agent, ``a2a_content`` makes its messages, and ``a2a_http`` and ``addresses`` decide where
  requests and credentials may go. ``kinds`` lists the kinds that perform attempts.
- ``mcp`` (``mcp_entry``, ``mcp_device``, ``mcp_leg``, ``mcp_calls``, ``mcp_tools``, ``mcp_questions``,
  ``mcp_results``) is a device whose skills are the tools of an MCP server. ``mcp_server``
  (``mcp_process``, ``mcp_http``) connects to servers, also for loops; ``resources`` holds connections.
- ``child`` is a device whose tasks are runs of their own.
"""
