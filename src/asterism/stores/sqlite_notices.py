"""The notices of the store in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from asterism.engine.ports.notices import REMOVED_AT_ONCE, STUCK_TRIES, Delivery, Notice
from asterism.engine.ports.store import InquiryRow
from asterism.stores.sqlite_rows import columns_of, fields_of, row_of, rows_of
from asterism.stores.writer import Writer, reads, writes

_INSERT = "INSERT INTO notices (kind, tenant, run, subject, text, at) VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_QUESTION = (
    "INSERT INTO notices (kind, tenant, run, subject, text, at) SELECT 'question', tenant, run, ?2, '', ?3 FROM runs WHERE run = ?1"
)
_INSERT_FAILED = """
INSERT INTO notices (kind, tenant, run, subject, text, at)
SELECT 'failed', tenant, run, '', '', ?2 FROM runs WHERE run = ?1 AND root = run AND outcome = 'failed'"""
_HAS_ENDED = "SELECT 1 FROM runs WHERE run = ? AND status = 'ended'"
_NOTICE = columns_of(Notice)
_INSERT_STUCK = """
INSERT INTO notices (kind, tenant, run, subject, text, at)
SELECT 'stuck', tenant, run, '', problem, due_at FROM runs WHERE run = ? AND root = run AND tries = ?"""
_UNROUTED = f"SELECT {_NOTICE} FROM notices WHERE NOT routed ORDER BY number LIMIT ?"  # noqa: S608 - our own names
_ROUTE = "UPDATE notices SET routed = 1 WHERE number = ? AND NOT routed"
_INSERT_DELIVERY = "INSERT INTO deliveries (notice, channel, status, tries, next_at, error) VALUES (?, ?, ?, ?, ?, ?)"
_DELIVERIES = f"""
SELECT {_NOTICE}, {columns_of(Delivery)} FROM deliveries JOIN notices ON number = notice
WHERE status IN ('waiting', 'sending') AND next_at <= ? ORDER BY notice, channel LIMIT ?"""  # noqa: S608 - our own names
_REPLACE = """
UPDATE deliveries SET status = ?3, tries = ?4, next_at = ?5, error = ?6
WHERE notice = ?1 AND channel = ?2 AND (status, tries, next_at, error) = (?7, ?8, ?9, ?10)"""
_OLD = f"(SELECT number FROM notices WHERE at < ? ORDER BY number LIMIT {REMOVED_AT_ONCE})"  # noqa: S608 - our own number
_REMOVE_DELIVERIES = f"DELETE FROM deliveries WHERE notice IN {_OLD}"  # noqa: S608 - our own names
_REMOVE = f"DELETE FROM notices WHERE number IN {_OLD}"  # noqa: S608 - our own names
DELETE_DELIVERIES = "DELETE FROM deliveries WHERE notice IN (SELECT number FROM notices JOIN runs USING (run) WHERE root = ?)"
"""The deliveries of a tree of runs; their notices are deleted by their run."""


def note_questions(connection: sqlite3.Connection, opened: Sequence[InquiryRow]) -> None:
    """Note the questions that a commit opens."""
    connection.executemany(_INSERT_QUESTION, [(it.run_id, it.inquiry_id, it.asked_at) for it in opened if not it.event])


def has_ended(connection: sqlite3.Connection, run_id: str) -> bool:
    """Return True if a run has ended: a later commit, as of its next owner, is no second failure."""
    return connection.execute(_HAS_ENDED, (run_id,)).fetchone() is not None


def note_failure(connection: sqlite3.Connection, run_id: str, at: float) -> None:
    """Note that a run has failed, if it has no parent, and has failed."""
    connection.execute(_INSERT_FAILED, (run_id, at))


def note_stuck(connection: sqlite3.Connection, run_id: str, problem: str) -> None:
    """Note that a run was released with a problem, if it has had as many in a row."""
    if problem:
        connection.execute(_INSERT_STUCK, (run_id, STUCK_TRIES))


class SqliteNotices:
    """The part of ``SqliteStore`` that holds notices."""

    _writer: Writer

    @writes
    def add_notice(self, connection: sqlite3.Connection, notice: Notice) -> None:
        connection.execute(_INSERT, msgspec.structs.astuple(notice)[1:])

    @reads
    def unrouted_notices(self, connection: sqlite3.Connection, *, limit: int = 100) -> list[Notice]:
        return rows_of(Notice, connection.execute(_UNROUTED, (limit,)))

    @writes
    def route_notice(self, connection: sqlite3.Connection, number: int, deliveries: Sequence[Delivery]) -> None:
        if connection.execute(_ROUTE, (number,)).rowcount:
            connection.executemany(_INSERT_DELIVERY, [msgspec.structs.astuple(it) for it in deliveries])

    @reads
    def deliveries(self, connection: sqlite3.Connection, *, due_by: float, limit: int = 100) -> list[tuple[Notice, Delivery]]:
        names = Notice.__struct_encode_fields__
        return [
            (
                row_of(Notice, {name: value for name, value in row.items() if name in names}),
                row_of(Delivery, {name: value for name, value in row.items() if name not in names}),
            )
            for row in fields_of(connection.execute(_DELIVERIES, (due_by, limit)))
        ]

    @writes
    def replace_delivery(self, connection: sqlite3.Connection, row: Delivery, *, before: Delivery) -> bool:
        fields = (*msgspec.structs.astuple(row), *msgspec.structs.astuple(before)[2:])
        return connection.execute(_REPLACE, fields).rowcount > 0

    @writes
    def remove_notices(self, connection: sqlite3.Connection, *, before: float) -> None:
        connection.execute(_REMOVE_DELIVERIES, (before,))
        connection.execute(_REMOVE, (before,))
