"""Runs that a server cannot drive, among good ones: the good ones end, and the others say what to do."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.end_to_end.test_serve import LIMIT_S, Place, place
from tests.end_to_end.test_serve_api import url_of

__all__ = ["place"]
ASKED = """
from asterism import Constellation, skill


@skill
def ask() -> int:
    return 1


asked = Constellation('asked')
asked.task(ask, requires_approval=True)
"""
GOOD = (20, 15, 15)


def submit_undefined(place: Place) -> str:
    """Submit a run of a loop whose file is then removed."""
    program = (place.folder / "agents.py").read_text(encoding="utf-8").replace('"agents', '"removed')
    (removed := place.folder / "removed.py").write_text(program, encoding="utf-8")
    argv = [sys.executable, "removed.py", "0", "1", "0"]
    done = subprocess.run(argv, cwd=place.folder, env=place.environment, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    removed.unlink()
    shutil.rmtree(place.folder / "__pycache__", ignore_errors=True)
    return done.stdout.strip()


def submit_damaged(place: Place) -> str:
    """Submit a run that waits for an approval, and let its journal then say something that no program would do."""
    (asked := place.folder / "asked.py").write_text(ASKED, encoding="utf-8")
    assert place.command("run", str(asked)).returncode == 3
    (row,) = (row for row in place.rows() if row.title == "asked")
    with contextlib.closing(sqlite3.connect(place.database)) as connection, connection:
        assert connection.execute("UPDATE entries SET state = 'FINISH' WHERE run = ? AND seq = 3", (row.run_id,)).rowcount == 1
        connection.execute("UPDATE runs SET due_at = 0 WHERE run = ?", (row.run_id,))
    return row.run_id


def stuck_metric(text: str) -> str:
    """Return the value of the metric of stuck runs."""
    return next(line.split()[-1] for line in text.splitlines() if line.startswith("asterism_runs_stuck"))


def has_words(read: Callable[[], str], *words: str) -> None:
    """Wait until a text has these words: while a run is tried, it is not shown as stuck."""
    end = time.monotonic() + LIMIT_S
    while missing := [word for word in words if word not in (text := read())]:
        assert time.monotonic() < end, (missing, text)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_runs_that_cannot_be_driven_are_stuck_with_what_to_do_and_fifty_good_runs_end(place: Place) -> None:
    undefined, damaged = submit_undefined(place), submit_damaged(place)
    bad = {
        undefined: ("the loop removed.py:loop cannot be found", "restore it, or cancel the run"),
        damaged: (f"journal of run {damaged}, entry 3", "use that one", f"asterism fork {damaged} --at 2"),
    }
    good = set(place.submit(*GOOD))
    with place.server("--port", "0") as process:
        assert process.stdout
        url = url_of(process.stdout.readline())
        rows = place.until(lambda rows: all(row.status == "ended" for row in rows if row.run_id in good), limit_s=300)
        assert {row.outcome for row in rows if row.run_id in good} == {"finished"}
        place.until(lambda rows: all(row.tries > 1 for row in rows if row.run_id in bad))
        token = Path(f"{place.database}.token").read_text(encoding="ascii").strip()
        with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=LIMIT_S) as http:
            has_words(lambda: stuck_metric(http.get("/metrics").text), "2.0")
            for run, words in bad.items():
                has_words(functools.partial(lambda run: json.dumps(http.get(f"/api/runs/{run}").json()), run), *words)
        for run, words in bad.items():
            has_words(lambda: place.command("runs", "--limit", "100").stdout, "stuck", *words)
            has_words(functools.partial(lambda run: place.command("show", run).stdout, run), "stuck", *words)
