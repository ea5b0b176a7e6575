"""What devices and runs know of each other, as plain data. Pure.

- ``attempt``: the attempts that a device receives, and what it returns.
- ``references`` and ``environment``: secrets, variables and folders that the settings of devices and tasks name.
"""
