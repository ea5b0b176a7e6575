"""The logs of the store in SQLite, with their bounds."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from asterism.runtime.ports.logs import RUN_BYTES, STREAM_BYTES, LogChunk
from asterism.stores.log_bounds import middle_of

# The seqs first: a sort of whole rows would hold their data.
SELECT_LOGS = """
SELECT seq, run, key, task, number, stream, position, at, data FROM logs WHERE seq IN (
    SELECT seq FROM logs WHERE run IN (SELECT value FROM json_each(?)) AND seq > ? ORDER BY seq LIMIT ?
) ORDER BY seq"""
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


class RunLogs:
    """Appends chunks within the transactions of a store, and counts the bytes of each run."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def add(self, connection: sqlite3.Connection, chunks: Sequence[LogChunk]) -> None:
        """Append the chunks; then remove what is beyond the bounds."""
        if len(self._sizes) > _RUNS_COUNTED:
            self._sizes.clear()
        streams: dict[tuple[str, str, str], int] = {}
        for it in chunks:
            fields = (it.run_id, it.key, it.task, it.number, it.stream, it.skipped, it.at, it.data)
            if it.run_id not in self._sizes:
                self._sizes[it.run_id] = sum(size for _, size in connection.execute(SELECT_SIZES, (it.run_id,)))
            for (end,) in connection.execute(INSERT_LOG, fields).fetchall():  # none if there is no such run
                streams[it.run_id, it.key, it.stream] = end
                self._sizes[it.run_id] += len(it.data)
        for (run, key, stream), end in streams.items():
            if end > STREAM_BYTES:
                half = STREAM_BYTES // 2
                self._sizes[run] -= sum(size for (size,) in connection.execute(THIN_STREAM, (run, key, stream, half, end - half)))
        for run in {run for run, _, _ in streams}:
            if self._sizes[run] > RUN_BYTES:
                self._thin_run(connection, run, chunks[-1].at)

    def _thin_run(self, connection: sqlite3.Connection, run: str, at: float) -> None:
        sizes = connection.execute(SELECT_SIZES, (run,)).fetchall()
        first, last = middle_of(sizes)
        if first <= last:
            removed = sum(size for seq, size in sizes if first <= seq <= last)
            removed += sum(before for (before,) in connection.execute(NOTED_BEFORE, (run,)))
            connection.execute(THIN_RUN, (run, first, last))
            connection.execute(INSERT_NOTE, (first, run, removed, at))
        self._sizes[run] = sum(size for seq, size in sizes if not first <= seq <= last)
