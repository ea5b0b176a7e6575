"""One attempt on a device.

- ``attempt_files`` copies the files that it takes, and stores those that it returns.
- ``task_log`` takes what it prints to the store: ``log_relay`` from workers, ``logged_performers`` from code of this
  process.
- ``secrets`` finds the values of secrets, and masks them.
- ``worker_protocol`` has its orders and reports, and ``processes`` controls the processes that perform attempts.
"""
