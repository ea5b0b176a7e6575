"""Delete ended runs from the store in SQLite, and give the space back.

A page that is free stays in the file until an incremental vacuum removes it, and the file itself shrinks at a checkpoint.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence

from asterism.errors import Refused
from asterism.stores.database import empty_log
from asterism.stores.owners import Owners
from asterism.stores.sqlite_due import SELECT_OWNERS
from asterism.stores.sqlite_notices import DELETE_DELIVERIES
from asterism.stores.sqlite_rows import json_of
from asterism.stores.sqlite_search import SqliteSearch
from asterism.stores.writer import Writer

_SELECT_PRUNABLE = """
SELECT run FROM runs INDEXED BY runs_ended WHERE root = run AND status = 'ended' AND updated_at < coalesce(?1, 9e999)
AND (?2 = '[]' OR outcome IN (SELECT value FROM json_each(?2)))
AND owner NOT IN (SELECT value FROM json_each(?3)) ORDER BY updated_at LIMIT ?4"""
# By the lengths of what is large, and about what a row needs without them.
_SELECT_OPEN_BYTES = """
WITH open (run) AS (
    SELECT run FROM runs WHERE root IN (
        SELECT run FROM runs WHERE root = run AND (status <> 'ended' OR owner IN (SELECT value FROM json_each(?)))))
SELECT (SELECT coalesce(sum(length(body) + length(note) + 250), 0) FROM entries WHERE run IN open)
+ (SELECT coalesce(sum(length(data) + 150), 0) FROM logs WHERE run IN open)
+ (SELECT coalesce(sum(length(body) + 150), 0) FROM snapshots WHERE run IN open)"""
_TABLES = ("entries", "snapshots", "inquiries", "inbox", "logs", "notices", "runs")
AT_A_TIME = 100
"""Trees deleted in one transaction; a small number, so that appends do not wait long."""
PAGES_AT_A_TIME = 500
"""Pages removed from the file in one transaction."""


class SqlitePruning(SqliteSearch):
    """The part of ``SqliteStore`` that deletes ended runs."""

    _writer: Writer

    async def prune(
        self, *, before: float | None = None, outcomes: Sequence[str] = (), keep_bytes: int | None = None, limit: int | None = None
    ) -> int:
        if keep_bytes is not None and await self._writer.read(_used_bytes) > keep_bytes:
            _check_open_bytes(await self._search(lambda connection: _open_bytes(connection, self._owners)), keep_bytes)
        pruned, count, named = 0, -1, json_of(outcomes)
        while count:  # bounded: each round deletes runs, or is the last
            most = AT_A_TIME if limit is None else min(AT_A_TIME, limit - pruned)
            count = await self._writer.write(
                lambda connection, most=most: _prune(connection, self._owners, before, named, keep_bytes=keep_bytes, most=most)  # type: ignore[misc]
            )
            pruned += count
        free, left = 0, await self._writer.read(_free_pages)
        if not pruned and not left and keep_bytes is None:
            return 0
        while left and left != free:  # bounded: a file from which no page can be removed keeps its number
            free, left = left, await self._writer.write(_vacuum)
        await asyncio.to_thread(self._empty_log)
        return pruned

    def _empty_log(self) -> None:
        empty_log(self._path)


def _prune(
    connection: sqlite3.Connection, owners: Owners, before: float | None, outcomes: str, *, keep_bytes: int | None, most: int
) -> int:
    found = connection.execute(_SELECT_PRUNABLE, (before, outcomes, _living(connection, owners), most)).fetchall()
    for number, (root,) in enumerate(found):
        if keep_bytes is not None and _used_bytes(connection) <= keep_bytes:
            return number
        connection.execute("DELETE FROM files WHERE root = ?", (root,))
        connection.execute(DELETE_DELIVERIES, (root,))
        for table in _TABLES:  # runs go last: the others need the roots in it
            connection.execute(f"DELETE FROM {table} WHERE run IN (SELECT run FROM runs WHERE root = ?)", (root,))  # noqa: S608 - our own names
    return len(found)


def _living(connection: sqlite3.Connection, owners: Owners) -> str:
    # A process that was killed between a run's last entry and its release is still its owner in the database.
    return json_of([owner for (owner,) in connection.execute(SELECT_OWNERS) if owners.live_owner(owner)])


def _check_open_bytes(open_bytes: int, keep_bytes: int) -> None:
    """Refuse to prune by size where that would delete every run that has ended, and not be enough."""
    if open_bytes > keep_bytes:
        raise Refused(
            f"the runs that have not ended have about {open_bytes / 1e6:.1f} MB, more than {keep_bytes / 1e6:g} MB: "
            "nothing is deleted for size; let some end, or name a larger size"
        )


def _open_bytes(connection: sqlite3.Connection, owners: Owners) -> int:
    """Return about how many bytes the trees have that may not be deleted."""
    return int(connection.execute(_SELECT_OPEN_BYTES, (_living(connection, owners),)).fetchone()[0])


def _vacuum(connection: sqlite3.Connection) -> int:
    """Remove some free pages from the file; return how many there still are."""
    for _ in range(PAGES_AT_A_TIME):  # sqlite3 takes one step of a statement without columns: a step removes one page
        connection.execute("PRAGMA incremental_vacuum(1)")
    return _free_pages(connection)


def _free_pages(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def _used_bytes(connection: sqlite3.Connection) -> int:
    """Return the size that the file has without its free pages."""
    pages, page_bytes = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages - _free_pages(connection)) * int(page_bytes)
