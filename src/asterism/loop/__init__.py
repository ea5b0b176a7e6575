"""Orchestration loops: their machine, view and Python API."""
