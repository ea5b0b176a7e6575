"""Planners: who turns a request into a constellation."""
