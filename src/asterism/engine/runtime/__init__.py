"""The runtime: the shell around the pure machines, and the only loop that advances runs.

- ``ports``: interfaces to stores, performers, observers, devices and planners.
- ``driver`` drives all runs of a process, ``run_executor`` one of them. ``arrivals``,
  ``run_status``, ``children``, ``wakeup_timer``, ``releases``, ``problems`` and ``task_group`` are parts of that.
  ``resources``: connections, each of which one task opens and closes.
- ``due_runs``: the embedded engine, which finds the runs that a process is to drive.
  ``retention`` deletes old ones. ``events``: sending events, and comparing them with waits.
- ``client`` submits, commands and reads runs; ``runtime`` is a client and a driver in one;
  ``runs`` is the port of those of a database and of a server.
- ``submission``, ``snapshots``, ``journal_file`` and ``journal_stream`` write, shorten, move and
  follow journals; ``log_stream`` follows logs.
- ``form``: a machine with its performers, and what shows and checks its runs. ``code_version``: a
  fingerprint of the code of a machine. ``entry_points``: parts of installed packages.
- ``lookup``: runs and questions by the beginning of an id. ``clock``: time and ids.
  ``private_files``: file modes.
  ``database_status``: the servers and the work of a database.
"""
