"""One attempt: its files, logs and secrets."""
