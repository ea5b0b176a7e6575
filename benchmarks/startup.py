"""How long ``asterism --help`` takes, process and all, beside the least program that could print a help text the same way."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARE_APP = '''
from cyclopts import App

app = App(name="bare", help="One command that does nothing.")


@app.command
def nothing(*, count: int = 1) -> None:
    """Do nothing."""


app()
'''


def help_s() -> float:
    """Seconds of ``asterism --help``."""
    return _run_s([sys.executable, "-m", "asterism.cli", "--help"])


def bare_help_s() -> float:
    """Seconds of the help of a cyclopts app with one command."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "bare.py"
        script.write_text(BARE_APP, encoding="utf-8")
        return _run_s([sys.executable, str(script), "--help"])


def _run_s(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started
