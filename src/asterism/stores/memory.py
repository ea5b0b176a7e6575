"""The store in the memory of this process: the SQL of a file, without a file, a thread and other processes.

Several stores on one ``MemoryDatabase`` stand for several processes on one file. Everything happens inline and in order.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import math
import sqlite3
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from asterism.engine.kernel.journal import Record
from asterism.engine.ports.store import InboxRow, InquiryRow, ProcessRow, RunRow
from asterism.stores.database import open_in_memory
from asterism.stores.sqlite import SqliteStore
from asterism.stores.sqlite_rows import columns_of, inbox_rows, rows_of
from asterism.stores.writer import InlineWriter

Row = TypeVar("Row", bound=msgspec.Struct)


class MemoryDatabase:
    """What stores of this process share. Its rows can be read at any moment between two operations, in order of arrival.

    Args:
        connection: by default to a new database in memory.
        path: the database, for messages.

    Attributes:
        living: the owners, by id.
        waiting: an event for each store, which is set when a run may have become due.
    """

    def __init__(self, connection: sqlite3.Connection | None = None, path: Path = Path(":memory:")) -> None:
        self.connection = connection or open_in_memory()
        self.path = path
        self.lock = threading.Lock()
        self.living: dict[str, ProcessRow] = {}
        self.waiting: dict[str, asyncio.Event] = {}
        self.numbers = itertools.count(1)
        self._read: dict[str, tuple[int, list[Any]]] = {}
        weakref.finalize(self, self.connection.close)

    @property
    def runs(self) -> Mapping[str, RunRow]:
        """Return all runs by id."""
        return {row.run_id: row for row in self._rows("runs", RunRow, functools.partial(rows_of, RunRow))}

    @property
    def records(self) -> Mapping[str, list[Record]]:
        """Return all journals by run."""
        journals: dict[str, list[Record]] = {run: [] for run in self.runs}
        for record in self._rows("entries", Record, functools.partial(rows_of, Record)):
            journals[record.run_id].append(record)
        return journals

    @property
    def inquiries(self) -> Mapping[str, InquiryRow]:
        """Return all questions by id."""
        rows = self._rows("inquiries", InquiryRow, functools.partial(rows_of, InquiryRow))
        return {row.inquiry_id: row for row in rows if not row.event}

    @property
    def inbox(self) -> Mapping[tuple[str, str], InboxRow]:
        """Return all rows of inboxes by run and key."""
        return {(row.run_id, row.key): row for row in self._rows("inbox", InboxRow, inbox_rows)}

    def _rows(self, table: str, kind: type[Row], rows: Callable[[sqlite3.Cursor], list[Row]]) -> list[Row]:
        changes = self.connection.total_changes
        if self._read.get(table, (-1, []))[0] != changes:
            cursor = self.connection.execute(f"SELECT {columns_of(kind)} FROM {table} ORDER BY rowid")  # noqa: S608 - our own names
            self._read[table] = changes, rows(cursor)
        return self._read[table][1]


@functools.cache
def process_memory() -> MemoryDatabase:
    """Return the database that the stores of this process share by default."""
    return MemoryDatabase()


class MemoryOwners:
    """The stores of a database in memory, as its owners.

    Args:
        living: the owners, by id.
        me: id of this one, which is never used twice.
    """

    def __init__(self, living: dict[str, ProcessRow], me: str) -> None:
        self._living = living
        self._me = me

    def enter(self) -> str:
        self._living.setdefault(self._me, ProcessRow(description=self._me))
        return self._me

    def live_owner(self, owner: str) -> str:
        if owner not in self._living:
            return ""
        return owner + (" (this one)" if owner == self._me else "")

    def announce_server(self, fleet: str, url: str, fleet_file: str = "") -> None:
        self._living[self._me] = ProcessRow(description=self._me, serves=True, fleet=fleet, fleet_file=fleet_file, url=url)

    def list_processes(self) -> list[ProcessRow]:
        return [row for _, row in sorted(self._living.items())]

    def leave(self) -> None:
        self._living.pop(self._me, None)


class MemoryStore(SqliteStore):
    """A ``Store`` in memory, which stands for one process.

    Args:
        database: shared with other stores; a new one if None.
        name: name of this store as an owner.
        writer: its writer on that database.
    """

    work_poll_s = math.inf

    def __init__(
        self,
        database: MemoryDatabase | None = None,
        *,
        name: str = "process",
        writer: InlineWriter | None = None,
    ) -> None:
        self.database = database or MemoryDatabase()
        self._me = f"{name} {next(self.database.numbers)}"
        self._inline = writer or InlineWriter(self.database.connection, self.database.path, self.database.lock)
        super().__init__(self.database.path, self._inline, MemoryOwners(self.database.living, self._me), searcher=self._inline)
        self.database.waiting[self._me] = self._work

    def crash(self) -> None:
        """Die as from kill -9: release nothing, and let every further operation fail."""
        self._inline.end("its process has crashed")
        self._leave()

    async def close(self) -> None:
        await super().close()
        self._leave()

    def _leave(self) -> None:
        self._owners.leave()
        self.database.waiting.pop(self._me, None)

    def _wake(self) -> None:
        for event in tuple(self.database.waiting.values()):
            event.set()

    def _empty_log(self) -> None:
        """There is none."""
