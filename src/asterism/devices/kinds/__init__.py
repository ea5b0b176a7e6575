"""The kinds of devices."""
