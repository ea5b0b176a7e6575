"""The store in a SQLite file: one writer thread, group commit, durable when a call returns.

Any number of processes may open the same file. ``owners`` knows which of them owns a run; the
owner's file ``<database>.owners/<id>`` is made when a store first acquires a run.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from asterism.errors import InvalidInput, RunNewer, RunNotFound, RunOwned, StaleOwner, StoreUnavailable
from asterism.kernel.journal import Record
from asterism.kernel.snapshot import Snapshot
from asterism.runtime.ports.store import Commit, InboxRow, InquiryRow, RunRow, RunStatus
from asterism.stores.consistency import check_rows
from asterism.stores.database import open_database
from asterism.stores.owners import Owners
from asterism.stores.writer import GroupWriter

Row = TypeVar("Row", bound=msgspec.Struct)

INSERT_RUN = """
INSERT INTO runs
    (run, machine, title, state, status, outcome, session, parent, tenant, actor, epoch, seq, owner, created_at, updated_at, root,
    version)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run) DO NOTHING"""
INSERT_ENTRY = """
INSERT INTO entries (run, seq, at, actor, kind, state, body, key, note, version, epoch)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
INSERT_INQUIRY = """
INSERT INTO inquiries (inquiry, run, prompt, verbs, subject, schema, risk, asked_at, expires_at, answer)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
INSERT_INBOX = """
INSERT INTO inbox (run, key, actor, kind, body, at, verdict)
SELECT run, ?, ?, ?, ?, ?, '' FROM runs WHERE run = ? ON CONFLICT (run, key) DO NOTHING"""
REPLACE_SNAPSHOT = "INSERT OR REPLACE INTO snapshots (run, seq, rules, body) VALUES (?, ?, ?, ?)"

ADVANCE_RUN = """
UPDATE runs SET seq = ?, state = ?, status = ?, outcome = ?, updated_at = ?, version = max(version, ?)
WHERE run = ? AND epoch = ? AND seq = ?"""
CLAIM_RUN = "UPDATE runs SET epoch = epoch + 1, owner = ? WHERE run = ?"
ABANDON_RUN = "UPDATE runs SET owner = '' WHERE run = ? AND epoch = ?"
RELEASE_RUN = """
UPDATE runs SET owner = '' WHERE run = ? AND epoch = ? AND NOT EXISTS (
    SELECT 1 FROM inbox JOIN runs AS below ON below.run = inbox.run
    WHERE verdict = '' AND (below.run = runs.run OR (below.root = runs.run AND below.status <> 'ended'))
)"""
CLOSE_INQUIRY = "UPDATE inquiries SET answer = ? WHERE inquiry = ? AND run = ? AND answer = ''"
FOLD_INBOX = "UPDATE inbox SET verdict = ? WHERE run = ? AND key = ? AND verdict = ''"

SELECT_RUN = """
SELECT run, machine, title, state, status, outcome, session, parent, tenant, actor, epoch, seq, owner, created_at, updated_at, root,
    version
FROM runs WHERE run = ?"""
SELECT_RUNS = """
SELECT run, machine, title, state, status, outcome, session, parent, tenant, actor, epoch, seq, owner, created_at, updated_at, root,
    version
FROM runs WHERE (?1 IS NULL OR status = ?1) AND (?2 IS NULL OR root = ?2) AND (NOT ?3 OR root = run)
ORDER BY created_at DESC, rowid DESC LIMIT ?4"""
SELECT_RECORDS = """
SELECT run, seq, at, actor, kind, state, body, key, note, version
FROM entries WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?"""
SELECT_INBOX_ROW = "SELECT run, key, actor, kind, body, at, verdict FROM inbox WHERE run = ? AND key = ?"
# Unfolded rows first: the list of runs is parsed from JSON only if there are any.
SELECT_INBOX = """
SELECT run, key, actor, kind, body, at, verdict FROM inbox INDEXED BY inbox_unfolded
WHERE verdict = '' AND +run IN (SELECT value FROM json_each(?)) ORDER BY rowid"""
SELECT_INQUIRIES = """
SELECT inquiry, run, prompt, verbs, subject, schema, risk, asked_at, expires_at, answer
FROM inquiries WHERE (?1 IS NULL OR run = ?1) AND (?2 IS NULL OR run IN (SELECT run FROM runs WHERE root = ?2)) ORDER BY rowid"""
SELECT_OPEN_INQUIRIES = """
SELECT inquiry, run, prompt, verbs, subject, schema, risk, asked_at, expires_at, answer
FROM inquiries WHERE answer = '' AND (?1 IS NULL OR run = ?1) AND (?2 IS NULL OR run IN (SELECT run FROM runs WHERE root = ?2))
ORDER BY rowid"""

SELECT_PRUNABLE = """
SELECT run FROM runs WHERE root = run AND status = 'ended' AND (?1 IS NULL OR updated_at < ?1)
AND (?2 = '[]' OR outcome IN (SELECT value FROM json_each(?2)))
AND owner NOT IN (SELECT value FROM json_each(?3)) ORDER BY updated_at LIMIT ?4"""
PRUNED_TABLES = ("entries", "snapshots", "inquiries", "inbox", "runs")
MAX_INTEGER = 2**63 - 1
"""The largest integer in SQLite; no row has a greater number."""
PRUNED_AT_A_TIME = 100
"""Runs deleted in one transaction; a small number, so that appends do not wait long."""


class SqliteStore:
    """A ``Store`` in a SQLite file.

    Use ``open``, and close it: its thread keeps the program from ending.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._owners = Owners(Path(f"{path}.owners"))
        self._writer = GroupWriter(connection, path)

    @classmethod
    def open(cls, path: str | Path, *, create: bool) -> Self:
        """Open the database at ``path``; with ``create``, make it and its folders if there is none.

        Raises:
            StoreUnavailable: the database cannot be used, with the reason and what to do. Nothing
                was written.
        """
        # Under whatever path it is opened, its owners share one folder.
        resolved = Path(os.path.realpath(path))
        return cls(resolved, open_database(resolved, create=create))

    async def submit(self, row: RunRow, first: Record, *more: Record, opened: Sequence[InquiryRow] = ()) -> None:
        records = (first, *more)
        check_rows(row.run_id, records, 1, opened)
        await self._writer.write(partial(_submit, row, records, opened))

    async def acquire(self, run_id: str, *, newest: int) -> int:
        return await self._writer.write(partial(_claim, self._owners, run_id, newest))

    async def release(self, run_id: str, epoch: int, *, force: bool = False) -> bool:
        return await self._writer.write(partial(_release, run_id, epoch, force))

    async def append(self, commit: Commit) -> None:
        check_rows(commit.run_id, commit.records, commit.expected_seq + 1, commit.opened)
        await self._writer.write(partial(_append, commit))

    async def run(self, run_id: str) -> RunRow:
        return await self._writer.read(partial(_run, self._owners, run_id))

    async def runs(
        self, *, limit: int = 100, status: RunStatus | None = None, root: str | None = None, roots_only: bool = False
    ) -> list[RunRow]:
        return await self._writer.read(partial(_runs, self._owners, (status, root, roots_only, min(limit, MAX_INTEGER))))

    async def records(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        return await self._writer.read(partial(_records, run_id, after, limit))

    async def snapshot(self, run_id: str) -> Snapshot | None:
        return await self._writer.read(partial(_snapshot, run_id))

    async def send(self, row: InboxRow) -> InboxRow:
        return await self._writer.write(partial(_send, row))

    async def inbox(self, runs: Sequence[str]) -> list[InboxRow]:
        return await self._writer.read(partial(_inbox, runs))

    async def verdict(self, run_id: str, key: str) -> str:
        return await self._writer.read(partial(_verdict, run_id, key))

    async def inquiries(self, *, run_id: str | None = None, root: str | None = None, open_only: bool = True) -> list[InquiryRow]:
        return await self._writer.read(partial(_inquiries, run_id, root, open_only))

    async def prune(self, *, before: float | None = None, outcomes: Sequence[str] = (), keep_bytes: int | None = None) -> int:
        forgotten = 0
        wanted = msgspec.json.encode(list(outcomes)).decode()
        while keep_bytes is None or await self._writer.read(_size) > keep_bytes:  # bounded: each round deletes runs, or is the last
            count = await self._writer.write(partial(_prune, self._owners, before, wanted))
            forgotten += count
            if not count:
                break
        return forgotten

    async def close(self) -> None:
        await self._writer.close()
        self._owners.leave()


# -- in the writer's thread; an AsterismError is raised before the first write ---------------------


def _submit(row: RunRow, records: Sequence[Record], opened: Sequence[InquiryRow], connection: sqlite3.Connection) -> None:
    fresh = msgspec.structs.replace(row, root=row.root or row.run_id, epoch=0, seq=len(records), owner="")
    if not connection.execute(INSERT_RUN, msgspec.structs.astuple(fresh)).rowcount:
        raise InvalidInput(f"there is a run {row.run_id!r} already; choose another id")
    connection.executemany(INSERT_ENTRY, [(*msgspec.structs.astuple(record), 0) for record in records])
    connection.executemany(INSERT_INQUIRY, [_packed(inquiry) for inquiry in opened])


def _claim(owners: Owners, run_id: str, newest: int, connection: sqlite3.Connection) -> int:
    seen = connection.execute("SELECT epoch, owner, version FROM runs WHERE run = ?", (run_id,)).fetchone()
    if seen is None:
        raise RunNotFound(run_id)
    epoch, owner, version = seen
    if version > newest:
        raise RunNewer(run_id, version, newest)
    if holder := owners.live_owner(owner):
        raise RunOwned(run_id, holder)
    # The write lock has been held since the group began, so no process acquires the run before this
    # update.
    connection.execute(CLAIM_RUN, (owners.enter(), run_id))
    return int(epoch) + 1


def _release(run_id: str, epoch: int, force: bool, connection: sqlite3.Connection) -> bool:  # noqa: FBT001 - bound by name above
    if connection.execute(ABANDON_RUN if force else RELEASE_RUN, (run_id, epoch)).rowcount:
        return True
    return connection.execute("SELECT 1 FROM runs WHERE run = ? AND epoch = ?", (run_id, epoch)).fetchone() is None


def _append(commit: Commit, connection: sqlite3.Connection) -> None:
    run, epoch, seq = commit.run_id, commit.epoch, commit.expected_seq
    row = (seq + len(commit.records), commit.state, commit.status, commit.outcome, commit.updated_at, commit.version)
    if not connection.execute(ADVANCE_RUN, (*row, run, epoch, seq)).rowcount:
        raise StaleOwner(run, epoch)
    connection.executemany(INSERT_ENTRY, [(*msgspec.structs.astuple(record), epoch) for record in commit.records])
    if commit.opened:
        connection.executemany(INSERT_INQUIRY, [_packed(inquiry) for inquiry in commit.opened])
    if commit.closed:
        connection.executemany(CLOSE_INQUIRY, [(answer, inquiry, run) for inquiry, answer in commit.closed])
    if commit.folded:
        connection.executemany(FOLD_INBOX, [(verdict, run, key) for key, verdict in commit.folded])
    if commit.snapshot:
        connection.execute(REPLACE_SNAPSHOT, msgspec.structs.astuple(commit.snapshot))
    if commit.status == "ended":
        connection.execute("DELETE FROM snapshots WHERE run = ?", (run,))


def _prune(owners: Owners, before: float | None, outcomes: str, connection: sqlite3.Connection) -> int:
    # A process that was killed between a run's last entry and its release is still its owner in the
    # database.
    named = connection.execute("SELECT DISTINCT owner FROM runs WHERE status = 'ended'").fetchall()
    living = msgspec.json.encode([owner for (owner,) in named if owners.live_owner(owner)]).decode()
    runs = [run for (run,) in connection.execute(SELECT_PRUNABLE, (before, outcomes, living, PRUNED_AT_A_TIME))]
    for table in PRUNED_TABLES:  # runs go last: the others need the roots in it
        connection.executemany(f"DELETE FROM {table} WHERE run IN (SELECT run FROM runs WHERE root = ?)", [(run,) for run in runs])  # noqa: S608 - our own names
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    return len(runs)


def _size(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(page_bytes)


def _run(owners: Owners, run_id: str, connection: sqlite3.Connection) -> RunRow:
    found = _rows(RunRow, connection.execute(SELECT_RUN, (run_id,)))
    if not found:
        raise RunNotFound(run_id)
    return msgspec.structs.replace(found[0], owner=owners.live_owner(found[0].owner))


def _runs(owners: Owners, asked: tuple[Any, ...], connection: sqlite3.Connection) -> list[RunRow]:
    found = _rows(RunRow, connection.execute(SELECT_RUNS, asked))
    words = {owner: owners.live_owner(owner) for owner in {row.owner for row in found}}
    return [msgspec.structs.replace(row, owner=words[row.owner]) for row in found]


def _records(run_id: str, after: int, limit: int | None, connection: sqlite3.Connection) -> list[Record]:
    return _rows(
        Record, connection.execute(SELECT_RECORDS, (run_id, min(after, MAX_INTEGER), -1 if limit is None else min(limit, MAX_INTEGER)))
    )


def _snapshot(run_id: str, connection: sqlite3.Connection) -> Snapshot | None:
    found = _rows(Snapshot, connection.execute("SELECT run, seq, rules, body FROM snapshots WHERE run = ?", (run_id,)))
    return found[0] if found else None


def _send(row: InboxRow, connection: sqlite3.Connection) -> InboxRow:
    connection.execute(INSERT_INBOX, (row.key, row.actor, row.kind, row.body, row.at, row.run_id))
    present = _inbox_rows(connection.execute(SELECT_INBOX_ROW, (row.run_id, row.key)))
    if not present:
        raise RunNotFound(row.run_id)
    return present[0]


def _inbox(runs: Sequence[str], connection: sqlite3.Connection) -> list[InboxRow]:
    return _inbox_rows(connection.execute(SELECT_INBOX, (msgspec.json.encode(runs).decode(),)))


def _verdict(run_id: str, key: str, connection: sqlite3.Connection) -> str:
    found = connection.execute("SELECT verdict FROM inbox WHERE run = ? AND key = ?", (run_id, key)).fetchone()
    return str(found[0]) if found else ""


def _inquiries(run_id: str | None, root: str | None, open_only: bool, connection: sqlite3.Connection) -> list[InquiryRow]:  # noqa: FBT001
    cursor = connection.execute(SELECT_OPEN_INQUIRIES if open_only else SELECT_INQUIRIES, (run_id, root))
    return [_row(InquiryRow, {**fields, "verbs": _json(fields["verbs"])}) for fields in _fields(cursor)]


def _packed(inquiry: InquiryRow) -> tuple[Any, ...]:
    verbs = msgspec.json.encode(inquiry.verbs).decode()
    return msgspec.structs.astuple(msgspec.structs.replace(inquiry, verbs=verbs))


def _rows(of: type[Row], cursor: sqlite3.Cursor) -> list[Row]:
    return [_row(of, fields) for fields in _fields(cursor)]


def _row(of: type[Row], fields: dict[str, Any]) -> Row:
    """Convert a row to its type; users can edit the file, and SQLite allows any value."""
    try:
        return msgspec.convert(fields, of)
    except msgspec.ValidationError as error:
        problem, name = str(error).replace("`", ""), next(iter(fields))
        place = f", entry {fields['seq']!r:.60}" if of is Record else ""
        raise StoreUnavailable(
            f"the database has a damaged row of {name} {str(fields[name])[:60]!r}{place}: {problem}; restore the file from a backup"
        ) from None


def _inbox_rows(cursor: sqlite3.Cursor) -> list[InboxRow]:
    """Convert rows of the inbox; an invalid one becomes an empty event, which its run rejects."""
    found = []
    for fields in _fields(cursor):
        try:
            found.append(msgspec.convert(fields, InboxRow))
        except msgspec.ValidationError:
            found.append(InboxRow(run_id=fields["run"], key=fields["key"], actor="", kind="", body="", at=0.0, verdict=fields["verdict"]))
    return found


def _json(text: Any) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError):
        return text


def _fields(cursor: sqlite3.Cursor) -> list[dict[str, Any]]:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]
