"""Delete ended runs from the store in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from asterism.stores.owners import Owners
from asterism.stores.sqlite_due import SELECT_OWNERS
from asterism.stores.sqlite_notices import DELETE_DELIVERIES
from asterism.stores.writer import GroupWriter

_SELECT_PRUNABLE = """
SELECT run FROM runs INDEXED BY runs_ended WHERE root = run AND status = 'ended' AND updated_at < coalesce(?1, 9e999)
AND (?2 = '[]' OR outcome IN (SELECT value FROM json_each(?2)))
AND owner NOT IN (SELECT value FROM json_each(?3)) ORDER BY updated_at LIMIT ?4"""
_TABLES = ("entries", "snapshots", "inquiries", "inbox", "logs", "notices", "runs")
AT_A_TIME = 100
"""Trees deleted in one transaction; a small number, so that appends do not wait long."""


class SqlitePruning:
    """The part of ``SqliteStore`` that deletes ended runs."""

    _writer: GroupWriter
    _owners: Owners

    async def prune(
        self, *, before: float | None = None, outcomes: Sequence[str] = (), keep_bytes: int | None = None, limit: int | None = None
    ) -> int:
        pruned, named = 0, msgspec.json.encode(outcomes).decode()
        while keep_bytes is None or await self._writer.read(_size) > keep_bytes:  # bounded: each round deletes runs, or is the last
            most = AT_A_TIME if limit is None else min(AT_A_TIME, limit - pruned)
            count = await self._writer.write(lambda connection, most=most: _prune(connection, self._owners, before, named, most))  # type: ignore[misc]
            pruned += count
            if not count:
                break
        return pruned


def _prune(connection: sqlite3.Connection, owners: Owners, before: float | None, outcomes: str, most: int) -> int:
    # A process that was killed between a run's last entry and its release is still its owner in the database.
    living = [owner for (owner,) in connection.execute(SELECT_OWNERS).fetchall() if owners.live_owner(owner)]
    found = connection.execute(_SELECT_PRUNABLE, (before, outcomes, msgspec.json.encode(living).decode(), most)).fetchall()
    if not found:
        return 0
    roots = [run for (run,) in found]
    connection.execute("DELETE FROM files WHERE root IN (SELECT value FROM json_each(?))", (msgspec.json.encode(roots).decode(),))
    connection.executemany(DELETE_DELIVERIES, found)
    for table in _TABLES:  # runs go last: the others need the roots in it
        connection.executemany(f"DELETE FROM {table} WHERE run IN (SELECT run FROM runs WHERE root = ?)", found)  # noqa: S608 - our own names
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    return len(roots)


def _size(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(page_bytes)
