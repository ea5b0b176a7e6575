"""Stores of journals: in SQLite, and in memory for simulations; and the store of files."""
