"""A constellation run as rows and lines. Pure."""
