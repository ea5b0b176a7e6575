"""Processes and threads that perform attempts."""
