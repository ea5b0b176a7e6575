"""Where journals live: SQLite, and memory for simulation."""
