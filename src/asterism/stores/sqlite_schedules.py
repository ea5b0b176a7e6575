"""The schedules of the store in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from asterism.engine.ports.schedules import MAX_FIRINGS, Firing, FiringStatus, LastFiring, Schedule
from asterism.errors import InvalidInput
from asterism.stores.sqlite_rows import columns_of, fields_of, marks_of, row_of, rows_of, values_of
from asterism.stores.writer import Writer, reads, writes

_COLUMNS = columns_of(Schedule)
_INSERT = f"INSERT INTO schedules ({_COLUMNS}) VALUES ({marks_of(Schedule)}) ON CONFLICT DO NOTHING"  # noqa: S608 - our own names
_REPLACE = f"INSERT OR REPLACE INTO schedules ({_COLUMNS}) VALUES ({marks_of(Schedule)})"  # noqa: S608 - our own names
_SELECT = f"""
SELECT {_COLUMNS} FROM schedules WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR name = ?2)
AND (?3 IS NULL OR (NOT paused AND next_at <= ?3)) ORDER BY tenant, name"""  # noqa: S608 - our own names
_DELETE = "DELETE FROM schedules WHERE tenant = ? AND name = ?"
_DELETE_FIRINGS = "DELETE FROM firings WHERE tenant = ? AND schedule = ?"
_FIRING = "tenant, schedule, due_at, run, status, reason, actor"
_INSERT_FIRING = f"INSERT INTO firings ({_FIRING}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608 - our own names
_SETTLE = """
UPDATE firings SET run = ?4, status = ?5, reason = ?6, actor = ?7 WHERE tenant = ?1 AND schedule = ?2 AND due_at = ?3 AND status = 'due'"""
_SELECT_FIRINGS = f"""
SELECT {_FIRING} FROM firings WHERE (?1 IS NULL OR tenant = ?1)
AND (?2 IS NULL OR schedule = ?2) AND (?3 IS NULL OR status = ?3) ORDER BY due_at DESC, tenant, schedule LIMIT ?4"""  # noqa: S608 - our own names
_SELECT_DUE = _SELECT_FIRINGS.replace("WHERE", "WHERE status = 'due' AND", 1)
_SELECT_LAST = """
SELECT firings.tenant, schedule, firings.due_at, firings.run, firings.status, reason, firings.actor, coalesce(outcome, '') AS outcome
FROM schedules JOIN firings ON firings.tenant = schedules.tenant AND schedule = name AND firings.due_at = (
    SELECT due_at FROM firings WHERE tenant = schedules.tenant AND schedule = name AND status <> 'due' ORDER BY due_at DESC LIMIT 1)
LEFT JOIN runs ON runs.run = firings.run WHERE ?1 IS NULL OR schedules.tenant = ?1 ORDER BY firings.tenant, schedule"""
_THIN = """
DELETE FROM firings WHERE tenant = ?1 AND schedule = ?2 AND status <> 'due'
AND due_at <= (SELECT due_at FROM firings WHERE tenant = ?1 AND schedule = ?2 ORDER BY due_at DESC LIMIT 1 OFFSET ?3)
AND due_at < coalesce((SELECT max(due_at) FROM firings WHERE tenant = ?1 AND schedule = ?2 AND status = 'started'), 1e18)"""


class SqliteSchedules:
    """The part of ``SqliteStore`` that holds schedules."""

    _writer: Writer

    @writes
    def add_schedule(self, connection: sqlite3.Connection, row: Schedule) -> None:
        if not connection.execute(_INSERT, values_of(row)).rowcount:
            raise InvalidInput(f"there is a schedule {row.name!r} already; remove it first, or choose another name")

    @writes
    def replace_schedule(self, connection: sqlite3.Connection, row: Schedule, *, before: Schedule, firings: Sequence[Firing] = ()) -> bool:
        if _rows(connection, before.tenant, before.name, None) != [before]:
            return False
        connection.execute(_REPLACE, values_of(row))
        connection.executemany(_INSERT_FIRING, [msgspec.structs.astuple(it) for it in firings])
        connection.execute(_THIN, (row.tenant, row.name, MAX_FIRINGS))
        return True

    @writes
    def remove_schedule(self, connection: sqlite3.Connection, tenant: str, name: str) -> bool:
        connection.execute(_DELETE_FIRINGS, (tenant, name))
        return connection.execute(_DELETE, (tenant, name)).rowcount > 0

    @reads
    def schedules(
        self, connection: sqlite3.Connection, tenant: str | None = None, *, name: str | None = None, due_by: float | None = None
    ) -> list[Schedule]:
        return _rows(connection, tenant, name, due_by)

    @writes
    def settle_firing(self, connection: sqlite3.Connection, firing: Firing) -> None:
        connection.execute(_SETTLE, msgspec.structs.astuple(firing))

    @reads
    def firings(
        self,
        connection: sqlite3.Connection,
        tenant: str | None = None,
        schedule: str | None = None,
        *,
        status: FiringStatus | None = None,
        limit: int = 100,
    ) -> list[Firing]:
        query = _SELECT_DUE if status == "due" else _SELECT_FIRINGS
        return rows_of(Firing, connection.execute(query, (tenant, schedule, status, limit)))

    @reads
    def last_firings(self, connection: sqlite3.Connection, tenant: str | None = None) -> list[LastFiring]:
        return rows_of(LastFiring, connection.execute(_SELECT_LAST, (tenant,)))


def _rows(connection: sqlite3.Connection, tenant: str | None, name: str | None, due_by: float | None) -> list[Schedule]:
    rows = fields_of(connection.execute(_SELECT, (tenant, name, due_by)))
    return [row_of(Schedule, {**row, "paused": bool(row["paused"])}) for row in rows]
