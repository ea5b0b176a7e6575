"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# A deadline would measure the machine, not the code.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")
