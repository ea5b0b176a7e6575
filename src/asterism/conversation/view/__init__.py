"""A conversation as rows and lines. Pure."""
