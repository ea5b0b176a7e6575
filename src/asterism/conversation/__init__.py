"""Conversations: their machine, view and Python API."""
