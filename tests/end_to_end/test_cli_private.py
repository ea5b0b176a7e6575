"""Arguments and results are in what a command writes: with the usual umask nobody else may read any of it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.desk import Desk

PLAN = {"task_id": "a", "device": "desk", "skill": "wait"}


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(*paths: Path) -> list[str]:
    """What others than the user may do something with, in folders and below them."""
    found = [it for path in paths for it in (path, *path.rglob("*"))]
    return [f"{it.name} {it.stat().st_mode & 0o777:o}" for it in found if it.stat().st_mode & 0o077]


def test_all_that_is_beside_the_database_is_private_while_a_run_goes_on(desk: Desk) -> None:
    with desk.start("run", desk.plan(PLAN), "--fleet", desk.fleet, gated=True) as run:
        desk.reach()
        names = {path.name.partition(".db")[2] for path in desk.database.parent.iterdir()}
        assert names == {"", "-wal", "-shm", ".owners", ".places", ".work", ".workers"}
        assert len(list(desk.database.parent.rglob("*"))) == len(names) + 5, (
            "a lock, a place, a list of workers, and the folders of a process and its attempt"
        )
        assert open_to_others(desk.database.parent) == []
        desk.open_gate()
        run.communicate()
    assert open_to_others(desk.database.parent) == []


def test_a_result_file_and_a_journal_file_are_private_and_those_that_are_there_keep_their_mode(desk: Desk) -> None:
    result, journal = desk.folder / "result.json", desk.folder / "run.jsonl"
    plan = desk.plan({"task_id": "a", "device": "desk", "skill": "measure"})
    for expected in (0o600, 0o664):
        desk.do("run", plan, "--fleet", desk.fleet, "--result-file", result)
        desk.do("export", str(desk.runs()[0]["run"]), "-o", journal)
        assert [path.stat().st_mode & 0o777 for path in (result, journal)] == [expected, expected]
        result.chmod(0o664)
        journal.chmod(0o664)


def test_a_database_that_is_there_keeps_its_mode(desk: Desk) -> None:
    desk.database.parent.mkdir()
    desk.database.touch(mode=0o644)
    desk.do("run", desk.plan({"task_id": "a", "device": "desk", "skill": "measure"}), "--fleet", desk.fleet)
    assert [path.stat().st_mode & 0o777 for path in (desk.database, desk.database.parent)] == [0o644, 0o755]
    with contextlib.closing(sqlite3.connect(desk.database)) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (1,)
