"""A database modified by hand: every command reports a problem in one line, never as a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from asterism.cli import main
from asterism.cli.exit_codes import UNUSABLE
from asterism.engine.runtime.journal_file import journal_lines, read_journals
from tests.end_to_end.desk import Desk

COLUMNS = {
    "runs": "run machine title state status outcome session parent tenant actor epoch seq owner created_at updated_at root",
    "entries": "seq at actor kind state body key note version epoch",
    "inquiries": "inquiry run question verbs subject schema risk asked_at expires_at answer",
    "inbox": "key actor kind body at verdict",
    "snapshots": "seq rules body",
}
CELLS = [(table, column) for table, columns in COLUMNS.items() for column in columns.split()]
RUBBISH: list[Any] = [
    "", "\0", "é", "{", "[]", "null", "{}", '{"event": 1}', "[1]", "../..",
    '{"a": ' * 3000, "x" * 5000, b"\xff\xfe", b"", b"{}", -1, 0, 7, 2**62, 0.5,
    -1e300, 1e300, float("inf"),
]  # fmt: skip
values = st.one_of(
    st.sampled_from(RUBBISH), st.text(max_size=8), st.binary(max_size=8), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)
)
LOOKS = [
    ["runs"], ["runs", "--json"], ["show", "WAITING"], ["show", "WAITING", "--json"], ["show", "DONE"],
    ["log", "WAITING"], ["log", "DONE", "--json"],     ["why", "DONE", "a"], ["inbox"], ["inbox", "--json"],
    ["export", "DONE"], ["export", "WAITING"], ["fork", "DONE", "--at", "2", "--no-drive"],
    ["answer", "WAITING", "approve", "--no-drive"], ["prune", "--outcome", "failed"],
]  # fmt: skip
DRIVES = [["cancel", "WAITING"], ["resume", "WAITING"], ["answer", "WAITING", "approve"]]


def is_json(value: Any) -> bool:
    return not isinstance(value, bytes) and value not in (float("inf"), float("-inf"))


class Desktop(NamedTuple):
    """A database that is copied for each example, and the two runs in it."""

    whole: Path
    used: Path
    done: str
    waiting: str


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    """Return a database with an ended run and one that waits for a person, with an inbox row and a snapshot."""
    folder = tmp_path_factory.mktemp("desk")
    desk = Desk(folder)
    task = {"task_id": "a", "device": "desk", "skill": "measure"}
    fails = {"task_id": "f", "device": "desk", "skill": "fail", "retry": {"max_attempts": 2, "backoff_s": 0.01}}
    asks = {"task_id": "w", "device": "server", "name": "deploy", "requires_approval": True}
    desk.do("run", desk.plan(task), "--fleet", desk.fleet)
    waits = desk.plan(task, fails, asks, dependencies=[{"from": "a", "to": "w", "condition": "accuracy > 0.1"}])
    desk.do("run", waits, "--fleet", desk.fleet, code=3)
    waiting, done = (str(row["run"]) for row in desk.runs())
    with sqlite3.connect(desk.database) as connection:
        connection.execute(
            "INSERT INTO inbox (run, key, actor, kind, body, at, verdict) VALUES (?, 'k', 'ann', 'pause', '{}', 1.0, '')", (waiting,)
        )
        connection.execute("INSERT INTO snapshots VALUES (?, 1, 'rules', '{}')", (waiting,))
    connection.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASTERISM_DATABASE", str(folder / "used.db"))
        patch.setenv("CLI_LOG", str(desk.log))
        yield Desktop(desk.database, folder / "used.db", done, waiting)


def copied(desktop: Desktop) -> sqlite3.Connection:
    shutil.rmtree(f"{desktop.used}.owners", ignore_errors=True)
    for end in ("-wal", "-shm"):
        Path(f"{desktop.used}{end}").unlink(missing_ok=True)
    shutil.copy(desktop.whole, desktop.used)
    return sqlite3.connect(desktop.used)


def rubbished(desktop: Desktop, table: str, column: str, value: Any) -> None:
    with contextlib.closing(copied(desktop)) as connection, connection:
        last = f"rowid = (SELECT max(rowid) FROM {table})"  # noqa: S608 - our own names
        change = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {last}"  # noqa: S608
        connection.execute(change, (value,))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each object or list of a JSON value with each of its names or indices, outermost first."""
    level = [value]
    while level:  # bounded: each round is one level further down
        inner = [(within, key) for within in level for key in (within if isinstance(within, dict) else range(len(within)))]
        yield from inner
        level = [within[key] for within, key in inner if isinstance(within[key], dict | list)]


def at_random(bodies: list[dict[str, Any]], place: int, value: Any) -> None:
    """Put a value in place of another one."""
    found = [(within, key) for within, key in places(bodies) if within is not bodies]
    within, key = found[place % len(found)]
    within[key] = value


def altered(desktop: Desktop, alter: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the bodies of the journal of the run that waits, as somebody does who leaves them JSON."""
    with contextlib.closing(copied(desktop)) as connection, connection:
        rows = connection.execute("SELECT rowid, body FROM entries WHERE run = ? ORDER BY seq", (desktop.waiting,)).fetchall()
        bodies = [json.loads(body) for _, body in rows]
        alter(bodies)
        changed = [(json.dumps(body), rowid) for (rowid, _), body in zip(rows, bodies, strict=True)]
        connection.executemany("UPDATE entries SET body = ? WHERE rowid = ?", changed)
        connection.execute("DELETE FROM snapshots")


def try_out(desktop: Desktop, table: str, column: str, value: Any, command: list[str]) -> None:
    rubbished(desktop, table, column, value)
    does_not_raise(desktop, command)


def does_not_raise(desktop: Desktop, command: list[str]) -> None:
    names = {"DONE": desktop.done, "WAITING": desktop.waiting}
    told = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
        code = main([names.get(word, word) for word in command])  # raises what would be a traceback
    assert code in (0, 1, 2, 3, 130)
    if code == UNUSABLE:
        assert len(told.getvalue().splitlines()) == 1


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(cell=("runs", "seq"), value="many", command=["show", "WAITING"])
@example(cell=("runs", "created_at"), value="then", command=["runs"])
@example(cell=("runs", "created_at"), value=1e300, command=["runs"])
@example(cell=("runs", "run"), value=b"r", command=["log", "WAITING"])
@example(cell=("entries", "seq"), value="two", command=["show", "WAITING"])
@example(cell=("entries", "seq"), value="\r", command=["show", "WAITING"])
@example(cell=("entries", "body"), value="{", command=["fork", "WAITING", "--at", "2", "--no-drive"])
@example(cell=("inquiries", "verbs"), value="approve", command=["inbox"])
@example(cell=("inquiries", "subject"), value="[]", command=["inbox"])
@example(cell=("inquiries", "subject"), value='{"kind": "plan", "plan": []}', command=["show", "WAITING"])
@example(cell=("inquiries", "schema"), value="{", command=["inbox", "--json"])
@example(cell=("inbox", "key"), value=b"\xff\xfe", command=["show", "WAITING"])
@given(cell=st.sampled_from(CELLS), value=values, command=st.sampled_from(LOOKS))
def test_reading_a_modified_row_never_raises(desktop: Desktop, cell: tuple[str, str], value: Any, command: list[str]) -> None:
    try_out(desktop, *cell, value, command)


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(cell=("inbox", "body"), value=b"\xff", command=["cancel", "WAITING"])
@example(cell=("inbox", "key"), value="", command=["cancel", "WAITING"])
@example(cell=("snapshots", "body"), value="[]", command=["cancel", "WAITING"])
@given(cell=st.sampled_from(CELLS), value=values, command=st.sampled_from(DRIVES))
def test_driving_a_run_with_a_modified_row_never_raises(desktop: Desktop, cell: tuple[str, str], value: Any, command: list[str]) -> None:
    try_out(desktop, *cell, value, command)


TYPES: list[Any] = ["x", "", 5, -5, 0.5, 10**30, None, True, [], {}, [1], {"a": {}}, {"satisfied": "no"}]
"""Values of other types than a field has, and of its own."""
BODIES = [*DRIVES, ["show", "WAITING"], ["log", "WAITING"], ["export", "WAITING"], ["fork", "WAITING", "--at", "3", "--no-drive"]]


@pytest.mark.parametrize("value", ["x", None, [], {"satisfied": "no"}], ids=repr)
def test_a_recorded_verdict_of_another_type_is_no_traceback(desktop: Desktop, value: Any) -> None:
    found: list[str] = []

    def alter(bodies: list[dict[str, Any]]) -> None:
        for facts in (body["facts"] for body in bodies if "facts" in body):
            found.extend(facts)
            facts.update(dict.fromkeys(facts, value))

    for command in BODIES:
        altered(desktop, alter)
        does_not_raise(desktop, command)
    assert any(name.startswith("jitter") for name in found), found
    assert any("a->w" in name for name in found), found


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 999), value=st.one_of(st.sampled_from(TYPES), values.filter(is_json)), command=st.sampled_from(BODIES))
def test_a_field_of_another_type_in_an_entry_is_no_traceback(desktop: Desktop, place: int, value: Any, command: list[str]) -> None:
    altered(desktop, lambda bodies: at_random(bodies, place, value))
    does_not_raise(desktop, command)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 999), value=st.sampled_from(TYPES))
def test_a_field_of_another_type_in_a_sealed_file_is_no_traceback(desktop: Desktop, place: int, value: Any) -> None:
    with contextlib.closing(copied(desktop)):
        file = desktop.used.with_name("run.jsonl")
    file.unlink(missing_ok=True)
    does_not_raise(desktop, ["export", "WAITING", "-o", str(file)])
    [(row, records)] = read_journals(file.read_text(encoding="utf-8").splitlines(keepends=True))
    bodies = [json.loads(record.body) for record in records]
    at_random(bodies, place, value)
    changed = [msgspec.structs.replace(record, body=json.dumps(body)) for record, body in zip(records, bodies, strict=True)]
    file.write_text("".join(journal_lines([(row, changed)])), encoding="utf-8")
    for path in file.parent.glob("other.db*"):
        path.unlink()
    does_not_raise(desktop, ["import", str(file), "--database", str(file.with_name("other.db"))])
