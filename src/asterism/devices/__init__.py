"""Devices: the fleet that lists them, the queue before each, and the attempts that they perform.

- ``model``: what devices and runs know of each other, as plain data.
- ``port``: what a device does for the dispatcher.
- ``skills``: the functions and commands that a device performs, and where they come from.
- ``attempts``: the files, logs and secrets of one attempt.
- ``workers``: processes and threads that perform attempts on this computer.
- ``fleet``: the fleet file, and the same devices declared in Python.
- ``dispatch``: when a device gets an attempt, and what is known of lost devices.
- ``kinds``: each kind of device; ``ssh``, ``mcp`` and ``a2a`` are packages, one per protocol.
"""
