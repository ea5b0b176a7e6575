"""Processes and threads that perform attempts on this computer.

``pool`` has the warm workers, ``handle`` one of them, and ``worker`` is the code of its process.
``thread`` performs functions that only this process has.
"""
