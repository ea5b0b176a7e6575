"""The application: its settings, how it is assembled, and how a program reaches it."""
