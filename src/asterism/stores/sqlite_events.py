"""The events of the store in SQLite, and their waits."""

# ruff: noqa: S608 - a query is made of our own names; values are parameters

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

import msgspec

from asterism.engine.kernel.permissions import LOWEST
from asterism.engine.ports.events import DEAD_S, MAX_EVENTS, PAIRS, EventRow, Given, Matcher, OpenWait
from asterism.errors import Refused
from asterism.stores.sqlite_due import SET_DUE
from asterism.stores.sqlite_rows import MAX_INTEGER, columns_of, json_of, marks_of, rows_of
from asterism.stores.writer import Writer, reads, writes

_COLUMNS = columns_of(EventRow)
_INSERT = f"INSERT INTO events ({_COLUMNS}) VALUES ({marks_of(EventRow)})"
_SELECT = f"SELECT {_COLUMNS} FROM events WHERE tenant = ? AND id = ?"
_LIST = f"""
SELECT {_COLUMNS} FROM events WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR (taken = 0 AND expires_at <= ?2))
ORDER BY number DESC LIMIT ?3"""
_DELETE_OLD = "DELETE FROM events WHERE expires_at <= ?1 AND (taken > 0 OR expires_at <= ?2)"
_PAIRS = """
FROM inquiries AS waits JOIN runs USING (run) JOIN runs AS roots ON roots.run = runs.root
JOIN events ON events.tenant = waits.tenant AND events.name = waits.event AND events.number > waits.seen
WHERE waits.answer = '' AND waits.event <> '' AND waits.given = 0 AND events.at >= roots.created_at AND events.expires_at > ?1
AND (events.deliver = 'all' OR events.taken = 0) AND runs.machine IN (SELECT value FROM json_each(?2))"""
_HAS_PAIR = f"SELECT 1 {_PAIRS} LIMIT 1"
_FIRST_PAIRS = f"SELECT waits.rowid, events.number {_PAIRS} ORDER BY events.number, waits.rowid LIMIT {PAIRS}"
_WAIT = f"SELECT {columns_of(OpenWait)} FROM inquiries JOIN runs USING (run) WHERE inquiries.rowid = ? AND given = 0"
_EVENT = f"SELECT {_COLUMNS} FROM events WHERE number = ? AND (deliver = 'all' OR taken = 0)"
_SEND = "INSERT INTO inbox (run, key, actor, kind, body, at, verdict, permissions) VALUES (?, ?, ?, ?, ?, ?, '', ?)"
_GIVE_BACK = """
UPDATE events SET taken = taken - 1 WHERE number = (SELECT given FROM inquiries WHERE inquiry = ?1 AND answer <> '' AND given > 0)
RETURNING tenant, name, number"""


class SqliteEvents:
    """The part of ``SqliteStore`` that holds events."""

    _writer: Writer

    def _wake(self) -> None:
        raise NotImplementedError

    @writes
    def add_event(self, connection: sqlite3.Connection, row: EventRow) -> EventRow:
        connection.execute(_DELETE_OLD, (row.at, row.at - DEAD_S))
        if present := rows_of(EventRow, connection.execute(_SELECT, (row.tenant, row.event_id))):
            return present[0]
        if connection.execute("SELECT count(*) FROM events").fetchone()[0] >= MAX_EVENTS:
            raise Refused(f"there are {MAX_EVENTS:,} events already; send them with a shorter keep_s")
        connection.execute(_INSERT, msgspec.structs.astuple(row))
        return row

    @reads
    def events(
        self, connection: sqlite3.Connection, tenant: str | None = None, *, dead_by: float | None = None, limit: int = 100
    ) -> list[EventRow]:
        return rows_of(EventRow, connection.execute(_LIST, (tenant, dead_by, min(limit, MAX_INTEGER))))

    async def match_events(self, matchers: Mapping[str, Matcher], given: Given, *, now: float) -> bool:
        bounds = (now, json_of(list(matchers)))
        if not await self._writer.read(lambda connection: connection.execute(_HAS_PAIR, bounds).fetchone()):
            return False
        await self._writer.write(lambda connection: _match(connection, bounds, matchers, given))
        self._wake()
        return True


def _match(connection: sqlite3.Connection, bounds: tuple[float, str], matchers: Mapping[str, Matcher], given: Given) -> None:
    for wait_number, number in connection.execute(_FIRST_PAIRS, bounds).fetchall():
        waits = rows_of(OpenWait, connection.execute(_WAIT, (wait_number,)))
        events = rows_of(EventRow, connection.execute(_EVENT, (number,)))
        if not waits or not events:
            continue  # an earlier pair has settled it
        wait, event = waits[0], events[0]
        if not matchers[wait.machine](msgspec.json.decode(wait.subject), msgspec.json.decode(event.data)):
            connection.execute("UPDATE inquiries SET seen = ? WHERE rowid = ?", (number, wait_number))
            continue
        kind, body = given(wait, event)
        connection.execute("UPDATE inquiries SET given = ? WHERE rowid = ?", (number, wait_number))
        connection.execute("UPDATE events SET taken = taken + 1 WHERE number = ?", (number,))
        connection.execute(_SEND, (wait.run_id, wait.inquiry_id, event.actor, kind, body, bounds[0], json_of(LOWEST)))
        connection.execute(SET_DUE, (wait.run_id, bounds[0]))


def give_back(connection: sqlite3.Connection, inquiries: Sequence[str]) -> None:
    """Give back the events of waits that ended before their run took them; others may get them."""
    for inquiry in inquiries:
        for tenant, name, number in connection.execute(_GIVE_BACK, (inquiry,)).fetchall():
            connection.execute(
                "UPDATE inquiries SET seen = min(seen, ?3) WHERE tenant = ?1 AND event = ?2 AND answer = '' AND given = 0",
                (tenant, name, number - 1),
            )
