"""Runs and databases of other versions on the command line: one line says why they cannot be used, and what to do."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.kernel.journal import version_of
from asterism.errors import version_text
from asterism.stores.database import APPLICATION_ID, MIGRATIONS
from tests.end_to_end.desk import Desk

OURS = version_of(CONSTELLATION_AGENT)
OTHER = version_text(OURS + 1), version_text(OURS)


def waiting(desk: Desk) -> str:
    """The id of a run that waits for a person, and that a newer program has written to."""
    desk.do(
        "run", desk.plan({"task_id": "a", "device": "desk", "skill": "measure", "requires_approval": True}), "--fleet", desk.fleet, code=3
    )
    with closing(sqlite3.connect(desk.database)) as connection, connection:
        connection.execute("UPDATE runs SET version = ?", (OURS + 1,))
    return str(desk.runs()[0]["run"])


def in_one_line(run_id: str) -> str:
    theirs, ours = OTHER
    return (
        f"asterism: run {run_id} was written with run version {theirs}, and this program supports run versions up to {ours};"
        " upgrade Asterism, or the program that defines the run's machine\n"
    )


@pytest.mark.parametrize(
    "command",
    [
        ("resume", "RUN"),
        ("show", "RUN"),
        ("log", "RUN"),
        ("why", "RUN", "a"),
        ("cancel", "RUN"),
        ("pause", "RUN"),
        ("answer", "RUN", "approve"),
        ("fork", "RUN", "--at", "1"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_on_a_newer_run_says_so_in_one_line_and_changes_nothing(desk: Desk, command: tuple[str, ...]) -> None:
    run = waiting(desk)
    before = desk.do("export", run).stdout
    refused = desk.do(*(run if part == "RUN" else part for part in command), code=2)
    assert refused.stderr == in_one_line(run)
    with closing(sqlite3.connect(desk.database)) as connection:
        assert connection.execute("SELECT count(*) FROM inbox").fetchone() == (0,)
    assert desk.do("export", run).stdout == before
    assert desk.performed() == []


def test_a_newer_run_is_listed_and_exported_and_its_file_is_refused_in_one_line(desk: Desk) -> None:
    run = waiting(desk)
    assert run in desk.do("runs").stdout
    assert desk.runs()[0]["version"] == OURS + 1
    file, other = desk.folder / "run.jsonl", desk.folder / "other.db"
    desk.do("export", run, "--output", file)
    assert desk.do("import", file, "--database", other, code=2).stderr == in_one_line(run)
    assert not other.exists()


def test_a_database_of_an_earlier_format_is_refused_in_one_line(desk: Desk) -> None:
    path = desk.folder / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        for script in sorted(MIGRATIONS.glob("*.sql"))[:3]:
            connection.executescript(script.read_text(encoding="utf-8"))
        connection.execute("INSERT INTO runs VALUES ('r', 'm', 't', 'START', 'waiting', '', '', '', '', '', 1, 1, '', 0.0, 0.0, 'r')")
        connection.commit()
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 3")
        connection.execute("PRAGMA journal_mode = WAL")
    before = path.read_bytes()
    refused = desk.do("runs", "--database", path, code=2)
    assert refused.stderr.startswith(f"asterism: database {path}: an earlier development version wrote it")
    assert len(refused.stderr.splitlines()) == 1
    assert path.read_bytes() == before
