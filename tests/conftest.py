"""What holds for every test."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# What a developer plans with, and pays for, is no business of a test.
for name in [name for name in os.environ if name.startswith("ASTERISM_")]:
    del os.environ[name]

# Tests start hundreds of processes: as for users, what was compiled once is not compiled again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Whoever runs the tests in the background (a shell's `&`, nohup, CI) has these ignored, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A deadline would measure the machine, not the code.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")
