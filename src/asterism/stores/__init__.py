"""Stores of journals: in SQLite, and in memory for simulations."""
