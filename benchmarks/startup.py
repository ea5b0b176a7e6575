"""How long ``asterism --help`` takes, process and all, beside the least program that could print a help text the same way."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import Taken, in_turns, taking

BARE_APP = '''
from cyclopts import App

app = App(name="bare", help="One command that does nothing.")


@app.command
def nothing(*, count: int = 1) -> None:
    """Do nothing."""


app()
'''


def _help() -> Taken:
    return _run([sys.executable, "-m", "asterism.cli", "--help"])


def _bare_help() -> Taken:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "bare.py"
        script.write_text(BARE_APP, encoding="utf-8")
        return _run([sys.executable, str(script), "--help"])


def _run(command: list[str]) -> Taken:
    with taking() as taken:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return taken


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    found = in_turns({"ours": _help, "bare": _bare_help}, 1 if quick else 25)
    ours, bare = found["ours"], found["bare"]
    told = f"{ours.wall_s * 1000:,.0f} ms, {ours.times(bare):.2f} times the help of a bare cyclopts app with one command"
    return [f"| `asterism --help`, the whole process | {told} |"]
