"""The logs of the store in SQLite, with their bounds."""

# ruff: noqa: S608 - a query is made of our own names; values are parameters

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from asterism.engine.ports.logs import ALL_OUTPUT, RUN_BYTES, STREAM_BYTES, LogChunk, LogQuery
from asterism.stores.sqlite_rows import json_of, rows_of
from asterism.stores.writer import Writer, reads, writes

# The seqs first: a sort of whole rows would hold their data.
_FOUND = """
FROM logs WHERE run IN (SELECT value FROM json_each(:runs)) AND seq > :after
AND (key = '' OR ((:task = '' OR task = :task) AND (:number = 0 OR number = :number))) ORDER BY seq"""
_FIRST = f"SELECT seq {_FOUND} LIMIT :limit"
_LAST = f"""
SELECT seq FROM (
    SELECT seq, sum(size) OVER (ORDER BY seq DESC) - size AS later FROM (SELECT seq, length(data) AS size {_FOUND} DESC LIMIT :limit)
) WHERE later < :tail_bytes"""
_SELECT = "SELECT seq, run, key, task, number, stream, position, at, data FROM logs WHERE seq IN ({}) ORDER BY seq"
INSERT_LOG = """
INSERT INTO logs (run, key, task, number, stream, position, at, data)
SELECT run, ?2, ?3, ?4, ?5, ?6 + coalesce((
    SELECT position + length(data) FROM logs WHERE run = ?1 AND key = ?2 AND stream = ?5 ORDER BY position DESC LIMIT 1
), 0), ?7, ?8 FROM runs WHERE run = ?1 RETURNING position + length(data)"""
THIN_STREAM = """
DELETE FROM logs WHERE run = ? AND key = ? AND stream = ? AND position >= ? AND position + length(data) <= ? RETURNING length(data)"""
SELECT_SIZES = "SELECT seq, length(data) FROM logs WHERE run = ? ORDER BY seq"
NOTED_BEFORE = "DELETE FROM logs WHERE run = ? AND key = '' RETURNING position"
THIN_RUN = "DELETE FROM logs WHERE run = ? AND seq BETWEEN ? AND ?"
INSERT_NOTE = "INSERT INTO logs (seq, run, key, task, number, stream, position, at, data) VALUES (?, ?, '', '', 1, 'stdout', ?, ?, x'')"

_RUNS_COUNTED = 1000


class SqliteLogs:
    """The part of ``SqliteStore`` that holds logs; it counts the bytes of each run."""

    _writer: Writer
    _log_bytes: dict[str, int]

    @reads
    def logs(
        self, connection: sqlite3.Connection, runs: Sequence[str], query: LogQuery = ALL_OUTPUT, *, after: int = 0, limit: int = 256
    ) -> list[LogChunk]:
        values = {**msgspec.structs.asdict(query), "runs": json_of(runs), "after": after, "limit": limit}
        return rows_of(LogChunk, connection.execute(_SELECT.format(_LAST if query.tail_bytes else _FIRST), values))

    @writes
    def add_logs(self, connection: sqlite3.Connection, chunks: Sequence[LogChunk]) -> None:
        if len(self._log_bytes) > _RUNS_COUNTED:
            self._log_bytes.clear()
        streams: dict[tuple[str, str, str], int] = {}
        for it in chunks:
            fields = (it.run_id, it.key, it.task, it.number, it.stream, it.skipped, it.at, it.data)
            if it.run_id not in self._log_bytes:
                self._log_bytes[it.run_id] = sum(size for _, size in connection.execute(SELECT_SIZES, (it.run_id,)))
            for (end,) in connection.execute(INSERT_LOG, fields).fetchall():  # none if there is no such run
                streams[it.run_id, it.key, it.stream] = end
                self._log_bytes[it.run_id] += len(it.data)
        for (run, key, stream), end in streams.items():
            if end > STREAM_BYTES:
                half = STREAM_BYTES // 2
                self._log_bytes[run] -= sum(size for (size,) in connection.execute(THIN_STREAM, (run, key, stream, half, end - half)))
        for run in {run for run, _, _ in streams}:
            if self._log_bytes[run] > RUN_BYTES:
                self._thin_run(connection, run, chunks[-1].at)

    def _thin_run(self, connection: sqlite3.Connection, run: str, at: float) -> None:
        sizes = connection.execute(SELECT_SIZES, (run,)).fetchall()
        first, last = _middle_of(sizes)
        if first <= last:
            removed = sum(size for seq, size in sizes if first <= seq <= last)
            removed += sum(before for (before,) in connection.execute(NOTED_BEFORE, (run,)))
            connection.execute(THIN_RUN, (run, first, last))
            connection.execute(INSERT_NOTE, (first, run, removed, at))
        self._log_bytes[run] = sum(size for seq, size in sizes if not first <= seq <= last)


def _middle_of(sizes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the first and the last seq to remove from a run, given (seq, bytes) in order; (0, -1) for none.

    More than necessary is removed, so that the next removal is not due at once.
    """
    total = sum(size for _, size in sizes)
    if total <= RUN_BYTES:
        return 0, -1
    first, last, before = 0, -1, 0
    for seq, size in sizes:
        if before >= RUN_BYTES // 2 and total - before > RUN_BYTES * 7 // 16:
            first, last = first or seq, seq
        before += size
    return first, last
