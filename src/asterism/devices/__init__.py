"""Devices and their fleet: who carries out attempts, and when."""
