"""The server: tokens, the HTTP API of the runs of one database, and its Python client."""
