"""The fleet: the file that lists devices, and the same in Python."""
