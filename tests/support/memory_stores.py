"""Stores in memory whose writes fail, or whose rows a test has changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from asterism.engine.kernel.snapshot import Snapshot
from asterism.stores.memory import MemoryDatabase, MemoryStore
from asterism.stores.sqlite import REPLACE_SNAPSHOT
from asterism.stores.writer import InlineWriter, Work


class FailingWriter(InlineWriter):
    """A writer whose commits fail while ``fails`` returns True; it is asked before each commit of a write."""

    def __init__(self, fails: Callable[[], bool], database: MemoryDatabase) -> None:
        super().__init__(database.connection, database.path, database.lock)
        self._fails = fails
        self._writes = False

    def perform(self, group: Sequence[Work[Any]], *, writes: bool) -> Sequence[object]:
        self._writes = writes
        return super().perform(group, writes=writes)

    def commit(self) -> None:
        if self._writes and self._fails():
            full = sqlite3.OperationalError("simulated")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full
        super().commit()


def failing_store(fails: Callable[[], bool], database: MemoryDatabase | None = None) -> MemoryStore:
    """Return a store with a ``FailingWriter``."""
    database = database or MemoryDatabase()
    return MemoryStore(database, writer=FailingWriter(fails, database))


def put_snapshot(store: MemoryStore, snapshot: Snapshot) -> None:
    """Make this the last snapshot of its run."""
    store.database.connection.execute(REPLACE_SNAPSHOT, msgspec.structs.astuple(snapshot))


def change_run(database: MemoryDatabase, run_id: str, **columns: Any) -> None:
    """Change columns of the row of a run."""
    for column, value in columns.items():
        database.connection.execute(f"UPDATE runs SET {column} = ? WHERE run = ?", (value, run_id))  # noqa: S608 - our own names
