"""Settings for all tests."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# Tests must not use the models and keys of a developer.
for name in [name for name in os.environ if name.startswith("ASTERISM_")]:
    del os.environ[name]

# Tests start hundreds of processes, which share the compiled bytecode.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# In the background (a shell's `&`, nohup, CI) these signals are ignored, also in every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A deadline would measure the machine, not the code.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")
