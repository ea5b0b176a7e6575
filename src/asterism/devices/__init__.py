"""Devices and their fleet: who carries out attempts, and when.

``fleet`` the file · ``dispatcher`` (``queue``, ``throttle``) when a device gets an attempt, ``news`` of devices · ``local`` skills in
processes of this machine: ``skill``, ``source``, ``command`` what they are, ``pool``, ``handle``, ``worker``, ``message``, ``log`` how
they are performed, ``process``, ``ledger`` what is left of them · ``child`` a device whose tasks are runs of their own.
"""
