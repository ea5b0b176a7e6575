"""The store in a SQLite file: one writer thread, group commit, durable when a call returns.

Any number of processes may open the same file. ``owners`` knows which of them owns a run; the
owner's file ``<database>.owners/<id>`` is made when a store first acquires a run.
"""

# ruff: noqa: S608 - a query is made of our own names; values are parameters

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.snapshot import Snapshot
from asterism.engine.ports.store import Commit, InboxRow, InquiryRow, ProcessRow, RunRow, check_rows
from asterism.engine.runtime.run_status import CANCELLED
from asterism.errors import InvalidInput, RunNewer, RunNotFound, RunOwned, StaleOwner
from asterism.stores.database import open_database
from asterism.stores.owners import FileOwners, Owners
from asterism.stores.sqlite_due import ABANDON_RUN, ACQUIRE_RUN, RELEASE_RUN, SET_DUE, SqliteDue
from asterism.stores.sqlite_events import SqliteEvents, give_back
from asterism.stores.sqlite_files import SqliteFiles
from asterism.stores.sqlite_logs import SqliteLogs
from asterism.stores.sqlite_notices import SqliteNotices, has_ended, note_failure, note_questions, note_stuck
from asterism.stores.sqlite_pruning import SqlitePruning
from asterism.stores.sqlite_rows import MAX_INTEGER, columns_of, inbox_rows, json_of, marks_of, rows_of, values_of
from asterism.stores.sqlite_schedules import SqliteSchedules
from asterism.stores.sqlite_search import SELECT_RECORDS
from asterism.stores.sqlite_tokens import SqliteTokens
from asterism.stores.writer import GroupWriter, Writer, reads, writes

INSERT_RUN = f"INSERT INTO runs ({columns_of(RunRow)}) VALUES ({marks_of(RunRow)}) ON CONFLICT (run) DO NOTHING"
INSERT_ENTRY = f"INSERT INTO entries ({columns_of(Record)}, epoch) VALUES ({marks_of(Record)}, ?)"
INSERT_INQUIRY = f"INSERT INTO inquiries ({columns_of(InquiryRow)}) VALUES ({marks_of(InquiryRow)})"
INSERT_INBOX = """
INSERT INTO inbox (run, key, actor, kind, body, at, verdict, permissions)
SELECT run, ?, ?, ?, ?, ?, '', ? FROM runs WHERE run = ? AND (? IS NULL OR tenant = ?) ON CONFLICT (run, key) DO NOTHING"""
REPLACE_SNAPSHOT = f"INSERT OR REPLACE INTO snapshots ({columns_of(Snapshot)}) VALUES ({marks_of(Snapshot)})"

ADVANCE_RUN = """
UPDATE runs SET seq = ?, state = ?, status = ?, outcome = ?, updated_at = ?, version = max(version, ?)
WHERE run = ? AND epoch = ? AND seq = ?"""
CLOSE_INQUIRY = "UPDATE inquiries SET answer = ? WHERE inquiry = ? AND run = ? AND answer = ''"
FOLD_INBOX = "UPDATE inbox SET verdict = ? WHERE run = ? AND key = ? AND verdict = ''"

SELECT_RUN = f"SELECT {columns_of(RunRow)} FROM runs WHERE run = ?1 AND (?2 IS NULL OR tenant = ?2)"
SELECT_SNAPSHOT = f"SELECT {columns_of(Snapshot)} FROM snapshots WHERE run = ?"
SELECT_INBOX_ROW = f"""
SELECT {columns_of(InboxRow)} FROM inbox
WHERE run = ? AND key = ? AND (? IS NULL OR run IN (SELECT run FROM runs WHERE tenant = ?))"""
# Unfolded rows first: the list of runs is parsed from JSON only if there are any.
SELECT_INBOX = f"""
SELECT {columns_of(InboxRow)} FROM inbox INDEXED BY inbox_unfolded
WHERE verdict = '' AND +run IN (SELECT value FROM json_each(?)) ORDER BY rowid"""
WORK_POLL_S = 0.2
"""Seconds between two looks whether another process has written."""


class SqliteStore(SqliteDue, SqliteLogs, SqliteFiles, SqliteTokens, SqliteSchedules, SqliteNotices, SqliteEvents, SqlitePruning):
    """A ``Store`` in a SQLite file.

    Use ``open``, and close it: its thread keeps the program from ending.
    """

    work_poll_s = WORK_POLL_S

    def __init__(self, path: Path, writer: Writer, owners: Owners, *, searcher: Writer | None = None) -> None:
        self._owners = owners
        self._writer = writer
        self._searcher = searcher
        self._path = path
        self._log_bytes = {}
        self._work = asyncio.Event()
        self._seen_version = 0

    @classmethod
    def open(cls, path: str | Path, *, create: bool) -> Self:
        """Open the database at ``path``; with ``create``, make it and its folders if there is none.

        Raises:
            StoreUnavailable: the database cannot be used, with the reason and what to do. Nothing
                was written.
        """
        # Under whatever path it is opened, its owners share one folder.
        resolved = Path(os.path.realpath(path))
        return cls(resolved, GroupWriter(open_database(resolved, create=create), resolved), FileOwners(Path(f"{resolved}.owners")))

    async def submit(self, row: RunRow, first: Record, *more: Record, opened: Sequence[InquiryRow] = ()) -> None:
        records = (first, *more)
        check_rows(row.run_id, records, 1, opened)
        await self._writer.write(lambda connection: self._submit(connection, row, records, opened))
        self._wake()

    def _submit(self, connection: sqlite3.Connection, row: RunRow, records: Sequence[Record], opened: Sequence[InquiryRow]) -> None:
        due_at = row.due_at if row.status != "ended" and row.root in ("", row.run_id) else None
        fresh = msgspec.structs.replace(
            row, root=row.root or row.run_id, epoch=0, seq=len(records), owner="", due_at=due_at, tries=0, problem=""
        )
        if not connection.execute(INSERT_RUN, msgspec.structs.astuple(fresh)).rowcount:
            raise InvalidInput(f"a run {row.run_id!r} already exists; choose another id")
        connection.executemany(INSERT_ENTRY, [(*msgspec.structs.astuple(record), 0) for record in records])
        connection.executemany(INSERT_INQUIRY, [values_of(inquiry) for inquiry in opened])
        note_questions(connection, opened)

    @writes
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
        connection.execute(ACQUIRE_RUN, (self._owners.enter(), run_id))
        return int(epoch) + 1

    async def wait_for_work(self, timeout_s: float) -> None:
        polls = max(1, math.ceil(timeout_s / self.work_poll_s))
        for _ in range(polls):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s / polls):
                    await self._work.wait()
            if self._work.is_set() or await self._has_changed():
                break
        self._work.clear()

    def _wake(self) -> None:
        """Wake the task that waits for work; in a file, other processes look."""
        self._work.set()

    @reads
    def _has_changed(self, connection: sqlite3.Connection) -> bool:
        """Return True if another process has written since the last look."""
        before, (self._seen_version,) = self._seen_version, connection.execute("PRAGMA data_version").fetchone()
        return before != self._seen_version

    async def release(self, run_id: str, epoch: int, *, force: bool = False, due_at: float | None = None, problem: str = "") -> bool:
        is_released = await self._release(run_id, epoch, force=force, due_at=due_at, problem=problem)
        if force or due_at is not None:
            self._wake()
        return is_released

    @writes
    def _release(self, connection: sqlite3.Connection, run_id: str, epoch: int, *, force: bool, due_at: float | None, problem: str) -> bool:
        if force:
            changed = connection.execute(ABANDON_RUN, (run_id, epoch, due_at or 0.0, problem)).rowcount
            note_stuck(connection, run_id, problem if changed else "")
        else:
            changed = connection.execute(RELEASE_RUN, (run_id, epoch, due_at)).rowcount
        return bool(changed) or connection.execute("SELECT 1 FROM runs WHERE run = ? AND epoch = ?", (run_id, epoch)).fetchone() is None

    async def append(self, commit: Commit) -> None:
        check_rows(commit.run_id, commit.records, commit.expected_seq + 1, commit.opened)
        await self._writer.write(lambda connection: self._append(connection, commit))

    def _append(self, connection: sqlite3.Connection, commit: Commit) -> None:
        run, epoch, seq = commit.run_id, commit.epoch, commit.expected_seq
        row = (seq + len(commit.records), commit.state, commit.status, commit.outcome, commit.updated_at, commit.version)
        ends = commit.status == "ended" and not has_ended(connection, run)
        if not connection.execute(ADVANCE_RUN, (*row, run, epoch, seq)).rowcount:
            raise StaleOwner(run, epoch)
        connection.executemany(INSERT_ENTRY, [(*msgspec.structs.astuple(record), epoch) for record in commit.records])
        if commit.opened:
            connection.executemany(INSERT_INQUIRY, [values_of(inquiry) for inquiry in commit.opened])
            note_questions(connection, commit.opened)
        if commit.closed:
            connection.executemany(CLOSE_INQUIRY, [(answer, inquiry, run) for inquiry, answer in commit.closed])
            give_back(connection, [inquiry for inquiry, answer in commit.closed if answer == CANCELLED])
        if commit.folded:
            connection.executemany(FOLD_INBOX, [(verdict, run, key) for key, verdict in commit.folded])
        if commit.snapshot:
            connection.execute(REPLACE_SNAPSHOT, msgspec.structs.astuple(commit.snapshot))
        if commit.status == "ended":
            connection.execute("DELETE FROM snapshots WHERE run = ?", (run,))
        if ends:
            note_failure(connection, run, commit.updated_at)

    @reads
    def run(self, connection: sqlite3.Connection, run_id: str, *, tenant: str | None = None) -> RunRow:
        found = rows_of(RunRow, connection.execute(SELECT_RUN, (run_id, tenant)))
        if not found:
            raise RunNotFound(run_id)
        return self._shown(found)[0]

    @reads
    def records(self, connection: sqlite3.Connection, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        most = -1 if limit is None else min(limit, MAX_INTEGER)
        return rows_of(Record, connection.execute(SELECT_RECORDS, (run_id, min(after, MAX_INTEGER), most)))

    @reads
    def snapshot(self, connection: sqlite3.Connection, run_id: str) -> Snapshot | None:
        return next(iter(rows_of(Snapshot, connection.execute(SELECT_SNAPSHOT, (run_id,)))), None)

    async def send(self, row: InboxRow, *, tenant: str | None = None) -> InboxRow:
        present = await self._send(row, tenant)
        self._wake()
        return present

    @writes
    def _send(self, connection: sqlite3.Connection, row: InboxRow, tenant: str | None) -> InboxRow:
        values = (row.key, row.actor, row.kind, row.body, row.at, json_of(row.permissions), row.run_id, tenant, tenant)
        if connection.execute(INSERT_INBOX, values).rowcount:
            connection.execute(SET_DUE, (row.run_id, row.at))
        present = inbox_rows(connection.execute(SELECT_INBOX_ROW, (row.run_id, row.key, tenant, tenant)))
        if not present:
            raise RunNotFound(row.run_id)
        return present[0]

    @writes
    def mark_networked(self, connection: sqlite3.Connection, run_id: str) -> None:
        connection.execute("UPDATE runs SET via = 'network' WHERE run = (SELECT root FROM runs WHERE run = ?)", (run_id,))

    @reads
    def inbox(self, connection: sqlite3.Connection, runs: Sequence[str]) -> list[InboxRow]:
        return inbox_rows(connection.execute(SELECT_INBOX, (json_of(runs),)))

    @reads
    def verdict(self, connection: sqlite3.Connection, run_id: str, key: str) -> str:
        found = connection.execute("SELECT verdict FROM inbox WHERE run = ? AND key = ?", (run_id, key)).fetchone()
        return str(found[0]) if found else ""

    async def announce_server(self, fleet: str, url: str = "", *, fleet_file: str = "") -> None:
        await asyncio.to_thread(self._owners.announce_server, fleet, url, fleet_file)

    async def list_processes(self) -> list[ProcessRow]:
        return await asyncio.to_thread(self._owners.list_processes)

    async def close(self) -> None:
        searcher, self._searcher = self._searcher, self._writer  # from now on, a search says that the store is closed
        if searcher:
            await searcher.close()
        await self._writer.close()
        self._owners.leave()
