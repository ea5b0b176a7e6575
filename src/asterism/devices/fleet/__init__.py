"""The fleet.

``fleet_file`` reads the file that lists the devices and opens them, and ``python_fleet`` declares the same devices in a
program. ``fleet_addition`` adds a device to the file, and refuses passwords in it.
"""
