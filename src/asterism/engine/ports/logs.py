"""Port of the logs of a run: everything that its tasks, workers, tools and handlers print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

Stream = Literal["stdout", "stderr"]

STREAM_BYTES = 8 << 20
"""Bytes that a store has of one stream of an attempt: the first and the last half of them."""
RUN_BYTES = 256 << 20
"""Bytes that a store has of the logs of one run: the first and the last half of them, roughly."""


class LogChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A part of one stream of an attempt.

    Attributes:
        seq: place among all chunks of a store, which sets it.
        key: id of the effect; empty for a note that the store removed ``position`` bytes of a run.
        task: task, step or handler that printed it.
        number: number of the attempt, from 1.
        position: bytes of the stream before it; the store sets it.
        skipped: bytes between it and the chunk before that were not stored.
        at: seconds since the epoch.
    """

    seq: int = 0
    run_id: str = msgspec.field(name="run")
    key: str
    task: str
    number: int = 1
    stream: Stream
    position: int = 0
    at: float
    data: bytes
    skipped: int = 0


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which chunks of some runs to return; by default the first ones of all. Notes are always among them.

    Attributes:
        task: only those of this task, step or handler; empty for all.
        number: only those of the attempts with this number; 0 for all.
        tail_bytes: only the last ones, back to the one in which these bytes begin; 0 for the first ones.
    """

    task: str = ""
    number: int = 0
    tail_bytes: int = 0


ALL_OUTPUT = LogQuery()


class LogRows(Protocol):
    """Reads logs."""

    async def logs(self, runs: Sequence[str], query: LogQuery = ALL_OUTPUT, *, after: int = 0, limit: int = 256) -> list[LogChunk]:
        """Return chunks of these runs with a seq greater than ``after``, in order, at most ``limit``."""
        ...


class LogStore(LogRows, Protocol):
    """Holds logs, apart from the journals."""

    async def add_logs(self, chunks: Sequence[LogChunk]) -> None:
        """Append chunks to their streams.

        Beyond ``STREAM_BYTES`` the middle of a stream is removed, beyond ``RUN_BYTES`` the middle of
        a run. Chunks of a run that does not exist are dropped.
        """
        ...
