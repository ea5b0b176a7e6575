"""Search the runs and questions of the store in SQLite, and read the new records of several runs at once."""

# ruff: noqa: S608 - a query is made of our own names; values are parameters

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from asterism.engine.kernel.journal import Record
from asterism.engine.ports.store import InquiryRow, RunQuery, RunRow, RunStatus, WorkSummary, read_inquiry_cursor, read_run_cursor
from asterism.stores.database import open_reader
from asterism.stores.owners import Owners
from asterism.stores.sqlite_rows import MAX_INTEGER, columns_of, json_of, rows_of, where_of
from asterism.stores.writer import GroupWriter, Writer, reads

T = TypeVar("T")

# The index has every column that is compared but actor and outcome, so the rows of other runs are not read. By those two
# they are: 40 ms for a rare outcome among 100,000 runs, so they need no index.
_FIND_RUNS = f"""
SELECT {columns_of(RunRow)} FROM runs WHERE rowid IN (
    SELECT rowid FROM runs INDEXED BY runs_listed
    WHERE (created_at, run) < (:at, :after) AND created_at >= :from AND (NOT :roots_only OR root = run)
    AND (:tenant IS NULL OR tenant = :tenant) AND (:status IS NULL OR status = :status) AND (:machine = '' OR machine = :machine)
    AND (NOT :open_only OR status <> 'ended')
    AND (:text = '' OR title LIKE '%' || :text || '%' ESCAPE '\\' OR run LIKE :text || '%' ESCAPE '\\'
        OR substr(run, instr(run, '-') + 1) LIKE :text || '%' ESCAPE '\\')
    ORDER BY created_at DESC, run DESC LIMIT :limit
) ORDER BY created_at DESC, run DESC"""
_WORK = """
SELECT run, updated_at, CASE
    WHEN owner IN (SELECT value FROM json_each(:living)) THEN 'driven'
    WHEN owner <> '' THEN 'due'
    WHEN problem <> '' THEN 'stuck'
    WHEN due_at <= :now THEN 'due'
    WHEN status IN ('waiting', 'paused') THEN status
    ELSE iif(due_at IS NULL, 'idle', 'later')
END AS kind FROM runs WHERE root = run AND status <> 'ended'"""
_COUNT_WORK = f"SELECT kind, count(*) FROM ({_WORK}) GROUP BY kind"
_SELECT_OLDEST = f"SELECT run FROM ({_WORK}) WHERE kind = :kind ORDER BY updated_at, run LIMIT :limit"
_COUNT_DRIVEN = "SELECT owner, count(*) FROM runs WHERE owner <> '' AND root = run AND status <> 'ended' GROUP BY owner"
_COUNT_MESSAGES = """
SELECT (SELECT count(*) FROM notices WHERE NOT routed), (SELECT count(*) FROM deliveries WHERE status IN ('waiting', 'sending')),
(SELECT count(*) FROM deliveries WHERE status = 'failed'),
coalesce((SELECT channel || ': ' || error FROM deliveries WHERE status IN ('waiting', 'sending') AND error <> ''), '')"""
_BEGINS = """rowid IN (
    SELECT rowid FROM runs WHERE run BETWEEN :begins AND :last
    UNION ALL SELECT rowid FROM runs WHERE substr(run, instr(run, '-') + 1) BETWEEN :begins AND :last
)"""
_SELECT_GROWN = """
SELECT run, value FROM json_each(?1) JOIN runs ON run = key WHERE seq > value AND (?2 IS NULL OR tenant = ?2) ORDER BY run LIMIT ?3"""
SELECT_RECORDS = f"SELECT {columns_of(Record)} FROM entries WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?"


class SqliteSearch:
    """The part of ``SqliteStore`` that lists and searches runs and questions.

    What looks at all runs has a connection and a thread of its own, so that appends do not wait for it.
    """

    _path: Path
    _owners: Owners
    _writer: Writer
    _searcher: Writer | None

    async def find_runs(self, query: RunQuery, *, after: str = "", limit: int = 100) -> list[RunRow]:
        return await self._search(lambda connection: self._shown(_find_runs(connection, query, after, limit)))

    async def find_inquiries(
        self, *, root: str | None = None, tenant: str | None = None, after: str = "", limit: int = 100
    ) -> list[InquiryRow]:
        return await self._search(lambda connection: _page_of_inquiries(connection, root, tenant, after, limit))

    async def summarize_work(self, *, now: float, limit: int = 3) -> WorkSummary:
        return await self._search(lambda connection: _summary(connection, self._owners, now, limit))

    @reads
    def runs(
        self,
        connection: sqlite3.Connection,
        *,
        limit: int = 100,
        status: RunStatus | None = None,
        root: str | None = None,
        roots_only: bool = False,
        open_only: bool = False,
        begins: str = "",
    ) -> list[RunRow]:
        conditions = {
            "status = :status": status is not None,
            "root = :root": root is not None,
            "root = run": roots_only,
            "status <> 'ended'": open_only,
            _BEGINS: bool(begins),
        }
        query = f"SELECT {columns_of(RunRow)} FROM runs WHERE {where_of(conditions)} ORDER BY created_at DESC, rowid DESC LIMIT :limit"
        last = f"{begins}{chr(sys.maxunicode)}"
        values = {"status": status, "root": root, "begins": begins, "last": last, "limit": min(limit, MAX_INTEGER)}
        return self._shown(rows_of(RunRow, connection.execute(query, values)))

    @reads
    def records_after(
        self, connection: sqlite3.Connection, cursors: Mapping[str, int], limit: int, *, tenant: str | None = None
    ) -> list[Record]:
        known = {run: min(seq, MAX_INTEGER) for run, seq in cursors.items()}
        grown = connection.execute(_SELECT_GROWN, (json_of(known), tenant, limit)).fetchall()
        found: list[Record] = []
        for run, seq in grown:
            found += rows_of(Record, connection.execute(SELECT_RECORDS, (run, seq, max(1, limit // len(grown)))))
        return found

    @reads
    def inquiries(
        self,
        connection: sqlite3.Connection,
        *,
        run_id: str | None = None,
        root: str | None = None,
        tenant: str | None = None,
        open_only: bool = True,
        events: bool = False,
    ) -> list[InquiryRow]:
        where = _conditions(run_id=run_id, root=root, tenant=tenant, open_only=open_only, events=events)
        query = f"SELECT {columns_of(InquiryRow)} FROM inquiries WHERE {where} ORDER BY rowid"
        return rows_of(InquiryRow, connection.execute(query, {"run": run_id, "root": root, "tenant": tenant}))

    async def _search(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._searcher is None:
            self._searcher = GroupWriter(open_reader(self._path), self._path)
        return await self._searcher.read(work)

    def _shown(self, rows: Sequence[RunRow]) -> list[RunRow]:
        """Return rows with their owners in words."""
        words = {owner: self._owners.live_owner(owner) for owner in {row.owner for row in rows}}
        return [msgspec.structs.replace(row, owner=words[row.owner]) for row in rows]


def _find_runs(connection: sqlite3.Connection, query: RunQuery, after: str, limit: int) -> list[RunRow]:
    """Perform ``Store.find_runs``; the owners are not in words yet."""
    at, run_id = read_run_cursor(after)
    if query.created_before is not None and query.created_before <= at:
        at, run_id = query.created_before, ""
    text = query.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    place = {"at": at, "after": run_id, "from": query.created_from or 0.0, "limit": min(limit, MAX_INTEGER)}
    values = {**msgspec.structs.asdict(query), "text": text, **place}
    others = "".join(f"{column} = :{column} AND " for column in ("actor", "outcome") if values[column])
    return rows_of(RunRow, connection.execute(_FIND_RUNS.replace("WHERE (", f"WHERE {others}(", 1), values))


def _summary(connection: sqlite3.Connection, owners: Owners, now: float, limit: int) -> WorkSummary:
    driven = {owner: number for owner, number in connection.execute(_COUNT_DRIVEN) if owners.live_owner(owner)}
    values = {"now": now, "living": json_of(list(driven)), "limit": limit}
    counts = dict(connection.execute(_COUNT_WORK, values).fetchall())
    oldest = {kind: [run for (run,) in connection.execute(_SELECT_OLDEST, {**values, "kind": kind})] for kind in counts}
    unrouted, unsent, failed, error = connection.execute(_COUNT_MESSAGES).fetchone()
    driven_by = {owners.live_owner(owner): number for owner, number in driven.items()}
    return WorkSummary(counts=counts, driven_by=driven_by, oldest=oldest, unrouted=unrouted, unsent=unsent, failed=failed, error=error)


def _page_of_inquiries(connection: sqlite3.Connection, root: str | None, tenant: str | None, after: str, limit: int) -> list[InquiryRow]:
    """Perform ``Store.find_inquiries``."""
    at, inquiry_id = read_inquiry_cursor(after)
    where = _conditions(root=root, tenant=tenant, open_only=True) + " AND (asked_at, inquiry) > (:at, :after)"
    index = "inquiries_by_time" if tenant is None else "inquiries_of_a_tenant"
    by = "" if root is not None else f"INDEXED BY {index}"  # SQLite would else sort all open questions
    query = f"SELECT {columns_of(InquiryRow)} FROM inquiries {by} WHERE {where} ORDER BY asked_at, inquiry LIMIT :limit"
    values = {"root": root, "tenant": tenant, "at": at, "after": inquiry_id, "limit": min(limit, MAX_INTEGER)}
    return rows_of(InquiryRow, connection.execute(query, values))


def _conditions(*, run_id: str | None = None, root: str | None, tenant: str | None, open_only: bool, events: bool = False) -> str:
    few = run_id is not None or root is not None
    return where_of(
        {
            "run = :run": run_id is not None,
            "run IN (SELECT run FROM runs WHERE root = :root)": root is not None,
            "tenant = :tenant": tenant is not None,
            "event <> ''" if events else "event = ''": True,
            "+answer = ''" if few else "answer = ''": open_only,  # the index of all open questions is for all of them
        }
    )
