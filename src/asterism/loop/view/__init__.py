"""A loop run as rows and lines. Pure."""
