"""The runs that are due in the store in SQLite: which to acquire, and when a run is due again."""

# ruff: noqa: S608 - a query is made of our own names; values are parameters

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence

import msgspec

from asterism.engine.ports.notices import STUCK_TRIES
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.problems import CRASHED, retry_delay_s
from asterism.stores.owners import Owners
from asterism.stores.sqlite_notices import note_stuck
from asterism.stores.sqlite_rows import MAX_INTEGER, columns_of, json_of, rows_of
from asterism.stores.writer import Writer, reads, writes

CRASH_ENTRIES = 100
"""Entries at the end of a journal in which progress before a crash is looked for."""
ACQUIRE_RUN = "UPDATE runs SET epoch = epoch + 1, owner = ?, due_at = NULL WHERE run = ?"
SET_DUE = """
UPDATE runs SET due_at = ?2 WHERE run = (SELECT root FROM runs WHERE run = ?1)
AND (owner = '' OR status = 'ended') AND (due_at IS NULL OR due_at > ?2)"""
_HAS_UNREAD = """EXISTS (
    SELECT 1 FROM inbox JOIN runs AS below ON below.run = inbox.run
    WHERE verdict = '' AND (below.run = runs.run OR (below.root = runs.run AND below.status <> 'ended'))
)"""
RELEASE_RUN = f"""
UPDATE runs SET owner = '', due_at = CASE WHEN root = run THEN ?3 END, tries = 0, problem = ''
WHERE run = ?1 AND epoch = ?2 AND NOT {_HAS_UNREAD}"""
ABANDON_RUN = """
UPDATE runs SET owner = '', due_at = CASE WHEN root = run THEN ?3 END,
    tries = tries + (?4 <> ''), problem = CASE WHEN ?4 = '' THEN problem ELSE ?4 END
WHERE run = ?1 AND epoch = ?2"""
SELECT_OWNERS = "SELECT DISTINCT owner FROM runs WHERE owner <> ''"
# What a dead process recorded is at the ends of the journals that it owned, under their last epoch.
_COUNT_CRASH = f"""
UPDATE runs SET tries = CASE WHEN EXISTS (
    SELECT 1 FROM runs AS below JOIN entries ON entries.run = below.run
    WHERE below.root = runs.run AND below.owner = runs.owner AND entries.epoch = below.epoch
    AND entries.seq > below.seq - {CRASH_ENTRIES} AND kind NOT IN (SELECT value FROM json_each(?2))
) THEN 0 ELSE tries + 1 END
WHERE owner = ?1 AND owner <> '' AND root = run AND status <> 'ended'"""
_SELECT_CRASHED = "SELECT run, tries FROM runs WHERE owner = ? AND root = run AND status <> 'ended' AND tries >= ?"
_SET_CRASHED = "UPDATE runs SET due_at = ?, problem = ? WHERE run = ?"
# An ended run is due only if something was sent to it that has no verdict.
_FREE_RUNS = f"""
UPDATE runs SET owner = '', problem = CASE WHEN tries = 0 THEN '' ELSE problem END,
    due_at = CASE WHEN root = run AND (status <> 'ended' OR {_HAS_UNREAD}) THEN coalesce(due_at, 0.0) ELSE due_at END
WHERE owner = ? AND owner <> ''"""
# One seek for each tenant, however many runs it has.
_SELECT_DUE_TENANTS = """
WITH RECURSIVE due (tenant) AS (
    SELECT min(tenant) FROM runs WHERE due_at IS NOT NULL
    UNION ALL
    SELECT (SELECT min(tenant) FROM runs WHERE due_at IS NOT NULL AND tenant > due.tenant) FROM due WHERE due.tenant IS NOT NULL
)
SELECT tenant FROM due WHERE tenant IS NOT NULL"""
_SELECT_DUE = f"""
SELECT {columns_of(RunRow)} FROM runs
WHERE due_at IS NOT NULL AND tenant = ? AND due_at <= ? AND fleet IN (SELECT value FROM json_each(?)) AND owner = ''
ORDER BY due_at, rowid LIMIT ?"""
_COUNT_STUCK = "SELECT count(*) FROM runs WHERE due_at IS NOT NULL AND problem <> '' AND status <> 'ended'"
_COUNT_OWNED = "SELECT tenant, count(*) FROM runs WHERE owner = ? AND owner <> '' AND root = run GROUP BY tenant"


class SqliteDue:
    """The part of ``SqliteStore`` that acquires runs that are due."""

    _writer: Writer
    _owners: Owners

    @writes
    def acquire_due(
        self, connection: sqlite3.Connection, limit: int, *, fleets: Sequence[str], now: float, idle_kinds: Collection[str]
    ) -> list[RunRow]:
        me = self._owners.enter()
        for (owner,) in connection.execute(SELECT_OWNERS).fetchall():
            if not self._owners.live_owner(owner):
                _free_runs(connection, owner, now, idle_kinds)
        tenants = [tenant for (tenant,) in connection.execute(_SELECT_DUE_TENANTS)]
        bounds = (now, json_of(fleets), min(limit, MAX_INTEGER))
        due = {tenant: rows_of(RunRow, connection.execute(_SELECT_DUE, (tenant, *bounds))) for tenant in tenants}
        share = _fair_share(due, dict(connection.execute(_COUNT_OWNED, (me,)).fetchall()) if due else {}, limit)
        connection.executemany(ACQUIRE_RUN, [(me, row.run_id) for row in share])
        return [msgspec.structs.replace(row, epoch=row.epoch + 1, owner=self._owners.live_owner(me), due_at=None) for row in share]

    @reads
    def count_stuck(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute(_COUNT_STUCK).fetchone()[0])


def _free_runs(connection: sqlite3.Connection, owner: str, now: float, idle_kinds: Collection[str]) -> None:
    """Free the runs of a dead process; those whose work may have ended it are due after a growing delay."""
    connection.execute(_COUNT_CRASH, (owner, json_of(list(idle_kinds))))
    for run_id, tries in connection.execute(_SELECT_CRASHED, (owner, STUCK_TRIES)).fetchall():
        connection.execute(_SET_CRASHED, (now + retry_delay_s(tries - STUCK_TRIES), CRASHED, run_id))
        note_stuck(connection, run_id, CRASHED)
    connection.execute(_FREE_RUNS, (owner,))


def _fair_share(due: Mapping[str, Sequence[RunRow]], owned: Mapping[str, int], limit: int) -> list[RunRow]:
    """Return the runs to acquire: each goes to the tenant that has the fewest then.

    Args:
        due: runs of each tenant that are due, in the order in which they are to be acquired.
        owned: runs of each tenant that are owned already.
        limit: the most runs to return.
    """
    ranked = [(owned.get(tenant, 0) + place, row.due_at or 0.0, row) for tenant, rows in due.items() for place, row in enumerate(rows)]
    return [row for _, _, row in sorted(ranked, key=lambda it: it[:2])[:limit]]
