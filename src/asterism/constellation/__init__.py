"""Constellations: their model, machine, planner, view and Python API."""
