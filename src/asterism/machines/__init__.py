"""The state machines, each a table, and the wiring between them. Pure."""
