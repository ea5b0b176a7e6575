"""The store in a SQLite file: one writer thread, group commit, durable when a call returns.

Any number of processes may open the same file. ``owners`` knows which of them owns a run; the
owner's file ``<database>.owners/<id>`` is made when a store first acquires a run.
"""

# ruff: noqa: S608 - a query is made of our own names; values are parameters

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import msgspec

from asterism.errors import InvalidInput, RunNewer, RunNotFound, RunOwned, StaleOwner, StoreUnavailable
from asterism.kernel.journal import Record
from asterism.kernel.snapshot import Snapshot
from asterism.runtime.ports.files import FileRow
from asterism.runtime.ports.logs import LogChunk
from asterism.runtime.ports.store import Commit, InboxRow, InquiryRow, RunRow, RunStatus, check_rows
from asterism.stores.database import open_database
from asterism.stores.owners import Owners
from asterism.stores.sqlite_files import COPY_FILES, FORGET_FILES, SELECT_FILES, add_file
from asterism.stores.sqlite_logs import SELECT_LOGS, RunLogs
from asterism.stores.writer import GroupWriter

Row = TypeVar("Row", bound=msgspec.Struct)


def _columns(kind: type[msgspec.Struct]) -> str:
    return ", ".join(field.encode_name for field in msgspec.structs.fields(kind))


def _marks(kind: type[msgspec.Struct]) -> str:
    return ", ".join("?" for _ in msgspec.structs.fields(kind))


INSERT_RUN = f"INSERT INTO runs ({_columns(RunRow)}) VALUES ({_marks(RunRow)}) ON CONFLICT (run) DO NOTHING"
INSERT_ENTRY = f"INSERT INTO entries ({_columns(Record)}, epoch) VALUES ({_marks(Record)}, ?)"
INSERT_INQUIRY = f"INSERT INTO inquiries ({_columns(InquiryRow)}) VALUES ({_marks(InquiryRow)})"
INSERT_INBOX = """
INSERT INTO inbox (run, key, actor, kind, body, at, verdict)
SELECT run, ?, ?, ?, ?, ?, '' FROM runs WHERE run = ? ON CONFLICT (run, key) DO NOTHING"""
REPLACE_SNAPSHOT = f"INSERT OR REPLACE INTO snapshots ({_columns(Snapshot)}) VALUES ({_marks(Snapshot)})"

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

SELECT_RUN = f"SELECT {_columns(RunRow)} FROM runs WHERE run = ?"
SELECT_RUNS = f"""
SELECT {_columns(RunRow)} FROM runs WHERE (?1 IS NULL OR status = ?1) AND (?2 IS NULL OR root = ?2) AND (NOT ?3 OR root = run)
ORDER BY created_at DESC, rowid DESC LIMIT ?4"""
SELECT_RECORDS = f"SELECT {_columns(Record)} FROM entries WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?"
SELECT_SNAPSHOT = f"SELECT {_columns(Snapshot)} FROM snapshots WHERE run = ?"
SELECT_INBOX_ROW = f"SELECT {_columns(InboxRow)} FROM inbox WHERE run = ? AND key = ?"
# Unfolded rows first: the list of runs is parsed from JSON only if there are any.
SELECT_INBOX = f"""
SELECT {_columns(InboxRow)} FROM inbox INDEXED BY inbox_unfolded
WHERE verdict = '' AND +run IN (SELECT value FROM json_each(?)) ORDER BY rowid"""
SELECT_INQUIRIES = f"""
SELECT {_columns(InquiryRow)} FROM inquiries
WHERE (?1 IS NULL OR run = ?1) AND (?2 IS NULL OR run IN (SELECT run FROM runs WHERE root = ?2)) ORDER BY rowid"""
SELECT_OPEN_INQUIRIES = SELECT_INQUIRIES.replace("WHERE", "WHERE answer = '' AND", 1)

SELECT_PRUNABLE = """
SELECT run FROM runs WHERE root = run AND status = 'ended' AND (?1 IS NULL OR updated_at < ?1)
AND (?2 = '[]' OR outcome IN (SELECT value FROM json_each(?2)))
AND owner NOT IN (SELECT value FROM json_each(?3)) ORDER BY updated_at LIMIT ?4"""
PRUNED_TABLES = ("entries", "snapshots", "inquiries", "inbox", "logs", "runs")
MAX_INTEGER = 2**63 - 1
"""The largest integer in SQLite; no row has a greater number."""
PRUNED_AT_A_TIME = 100
"""Runs deleted in one transaction; a small number, so that appends do not wait long."""


P = ParamSpec("P")
T = TypeVar("T")
Operation = Callable[Concatenate["SqliteStore", sqlite3.Connection, P], T]
Method = Callable[Concatenate["SqliteStore", P], Coroutine[Any, Any, T]]


def _reads(work: Operation[P, T]) -> Method[P, T]:

    async def method(self: SqliteStore, /, *args: P.args, **options: P.kwargs) -> T:
        return await self._writer.read(lambda connection: work(self, connection, *args, **options))

    return method


def _writes(work: Operation[P, T]) -> Method[P, T]:
    # An operation raises an AsterismError before its first write

    async def method(self: SqliteStore, /, *args: P.args, **options: P.kwargs) -> T:
        return await self._writer.write(lambda connection: work(self, connection, *args, **options))

    return method


class SqliteStore:
    """A ``Store`` in a SQLite file.

    Use ``open``, and close it: its thread keeps the program from ending.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._owners = Owners(Path(f"{path}.owners"))
        self._writer = GroupWriter(connection, path)
        self._logs = RunLogs()

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
        await self._submit(row, records, opened)

    @_writes
    def _submit(self, connection: sqlite3.Connection, row: RunRow, records: Sequence[Record], opened: Sequence[InquiryRow]) -> None:
        fresh = msgspec.structs.replace(row, root=row.root or row.run_id, epoch=0, seq=len(records), owner="")
        if not connection.execute(INSERT_RUN, msgspec.structs.astuple(fresh)).rowcount:
            raise InvalidInput(f"a run {row.run_id!r} already exists; choose another id")
        connection.executemany(INSERT_ENTRY, [(*msgspec.structs.astuple(record), 0) for record in records])
        connection.executemany(INSERT_INQUIRY, [_packed(inquiry) for inquiry in opened])

    @_writes
    def acquire(self, connection: sqlite3.Connection, run_id: str, *, newest: int) -> int:
        seen = connection.execute("SELECT epoch, owner, version FROM runs WHERE run = ?", (run_id,)).fetchone()
        if seen is None:
            raise RunNotFound(run_id)
        epoch, owner, version = seen
        if version > newest:
            raise RunNewer(run_id, version, newest)
        if holder := self._owners.live_owner(owner):
            raise RunOwned(run_id, holder)
        # The write lock has been held since the group began, so no process acquires the run before
        # this update.
        connection.execute(CLAIM_RUN, (self._owners.enter(), run_id))
        return int(epoch) + 1

    @_writes
    def release(self, connection: sqlite3.Connection, run_id: str, epoch: int, *, force: bool = False) -> bool:
        if connection.execute(ABANDON_RUN if force else RELEASE_RUN, (run_id, epoch)).rowcount:
            return True
        return connection.execute("SELECT 1 FROM runs WHERE run = ? AND epoch = ?", (run_id, epoch)).fetchone() is None

    async def append(self, commit: Commit) -> None:
        check_rows(commit.run_id, commit.records, commit.expected_seq + 1, commit.opened)
        await self._append(commit)

    @_writes
    def _append(self, connection: sqlite3.Connection, commit: Commit) -> None:
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

    @_reads
    def run(self, connection: sqlite3.Connection, run_id: str) -> RunRow:
        found = _rows(RunRow, connection.execute(SELECT_RUN, (run_id,)))
        if not found:
            raise RunNotFound(run_id)
        return msgspec.structs.replace(found[0], owner=self._owners.live_owner(found[0].owner))

    @_reads
    def runs(
        self,
        connection: sqlite3.Connection,
        *,
        limit: int = 100,
        status: RunStatus | None = None,
        root: str | None = None,
        roots_only: bool = False,
    ) -> list[RunRow]:
        found = _rows(RunRow, connection.execute(SELECT_RUNS, (status, root, roots_only, min(limit, MAX_INTEGER))))
        words = {owner: self._owners.live_owner(owner) for owner in {row.owner for row in found}}
        return [msgspec.structs.replace(row, owner=words[row.owner]) for row in found]

    @_reads
    def records(self, connection: sqlite3.Connection, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        most = -1 if limit is None else min(limit, MAX_INTEGER)
        return _rows(Record, connection.execute(SELECT_RECORDS, (run_id, min(after, MAX_INTEGER), most)))

    @_reads
    def snapshot(self, connection: sqlite3.Connection, run_id: str) -> Snapshot | None:
        return next(iter(_rows(Snapshot, connection.execute(SELECT_SNAPSHOT, (run_id,)))), None)

    @_writes
    def send(self, connection: sqlite3.Connection, row: InboxRow) -> InboxRow:
        connection.execute(INSERT_INBOX, (row.key, row.actor, row.kind, row.body, row.at, row.run_id))
        present = _inbox_rows(connection.execute(SELECT_INBOX_ROW, (row.run_id, row.key)))
        if not present:
            raise RunNotFound(row.run_id)
        return present[0]

    @_reads
    def inbox(self, connection: sqlite3.Connection, runs: Sequence[str]) -> list[InboxRow]:
        return _inbox_rows(connection.execute(SELECT_INBOX, (msgspec.json.encode(runs).decode(),)))

    @_reads
    def verdict(self, connection: sqlite3.Connection, run_id: str, key: str) -> str:
        found = connection.execute("SELECT verdict FROM inbox WHERE run = ? AND key = ?", (run_id, key)).fetchone()
        return str(found[0]) if found else ""

    @_reads
    def inquiries(
        self, connection: sqlite3.Connection, *, run_id: str | None = None, root: str | None = None, open_only: bool = True
    ) -> list[InquiryRow]:
        cursor = connection.execute(SELECT_OPEN_INQUIRIES if open_only else SELECT_INQUIRIES, (run_id, root))
        return [_row(InquiryRow, {**fields, "verbs": _json(fields["verbs"])}) for fields in _fields(cursor)]

    async def prune(self, *, before: float | None = None, outcomes: Sequence[str] = (), keep_bytes: int | None = None) -> int:
        forgotten = 0
        while keep_bytes is None or await self._size() > keep_bytes:  # bounded: each round deletes runs, or is the last
            count = await self._prune(before, outcomes)
            forgotten += count
            if not count:
                break
        return forgotten

    @_writes
    def _prune(self, connection: sqlite3.Connection, before: float | None, outcomes: Sequence[str]) -> int:
        # A process that was killed between a run's last entry and its release is still its owner in
        # the database.
        named = connection.execute("SELECT DISTINCT owner FROM runs WHERE status = 'ended'").fetchall()
        living = [owner for (owner,) in named if self._owners.live_owner(owner)]
        asked = (before, msgspec.json.encode(outcomes).decode(), msgspec.json.encode(living).decode(), PRUNED_AT_A_TIME)
        runs = [run for (run,) in connection.execute(SELECT_PRUNABLE, asked)]
        connection.execute("DELETE FROM files WHERE root IN (SELECT value FROM json_each(?))", (msgspec.json.encode(runs).decode(),))
        for table in PRUNED_TABLES:  # runs go last: the others need the roots in it
            connection.executemany(f"DELETE FROM {table} WHERE run IN (SELECT run FROM runs WHERE root = ?)", [(run,) for run in runs])
        connection.execute("PRAGMA incremental_vacuum").fetchall()
        return len(runs)

    @_reads
    def _size(self, connection: sqlite3.Connection) -> int:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        return int(pages) * int(page_bytes)

    @_writes
    def add_logs(self, connection: sqlite3.Connection, chunks: Sequence[LogChunk]) -> None:
        self._logs.add(connection, chunks)

    @_reads
    def logs(self, connection: sqlite3.Connection, runs: Sequence[str], *, after: int = 0, limit: int = 256) -> list[LogChunk]:
        cursor = connection.execute(SELECT_LOGS, (msgspec.json.encode(runs).decode(), after, limit))
        return [_row(LogChunk, fields) for fields in _fields(cursor)]

    @_writes
    def add_file(self, connection: sqlite3.Connection, row: FileRow) -> None:
        add_file(connection, row)

    @_reads
    def files(self, connection: sqlite3.Connection, root: str | None = None) -> list[FileRow]:
        return _rows(FileRow, connection.execute(SELECT_FILES, (root,)))

    @_writes
    def copy_files(self, connection: sqlite3.Connection, origin: str, root: str) -> None:
        connection.execute(COPY_FILES, (origin, root))

    @_writes
    def remove_files(self, connection: sqlite3.Connection, roots: Sequence[str], *, before: float) -> None:
        connection.execute(FORGET_FILES, (msgspec.json.encode(roots).decode(), before))

    async def close(self) -> None:
        await self._writer.close()
        self._owners.leave()


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
    """Convert rows of the inbox; an invalid one becomes an empty event, which its run refuses."""
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
