"""The bounds of logs, for chunks in memory; the store in SQLite has them as queries."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from asterism.engine.ports.logs import RUN_BYTES, STREAM_BYTES, LogChunk, LogQuery


def end_of(chunks: Sequence[LogChunk], of: LogChunk) -> int:
    """Return the number of bytes of a chunk's stream so far."""
    ends = (it.position + len(it.data) for it in reversed(chunks) if (it.key, it.stream) == (of.key, of.stream))
    return next(ends, 0)


def selected(chunks: Sequence[LogChunk], query: LogQuery, after: int, limit: int) -> list[LogChunk]:
    """Return the chunks of some runs that a query asks for."""
    found = sorted((it for it in chunks if it.seq > after and query.matches(it)), key=lambda it: it.seq)
    if not query.tail_bytes:
        return found[:limit]
    tail, size = 0, 0
    while tail < min(limit, len(found)) and size < query.tail_bytes:
        tail += 1
        size += len(found[-tail].data)
    return found[len(found) - tail :]


def thinned(chunks: Sequence[LogChunk]) -> list[LogChunk]:
    """Return the chunks of a run without the middle of each stream, and of the run, that exceeds its bound."""
    ends: dict[tuple[str, str], int] = {}
    for it in chunks:
        ends[it.key, it.stream] = it.position + len(it.data)
    half = STREAM_BYTES // 2
    fit = [it for it in chunks if it.position < half or it.position + len(it.data) > ends[it.key, it.stream] - half]
    first, last = middle_of([(it.seq, len(it.data)) for it in fit])
    removed = [it for it in fit if first <= it.seq <= last and it.key]
    if not removed:
        return fit
    size = sum(len(it.data) for it in removed) + sum(it.position for it in fit if not it.key)
    note = msgspec.structs.replace(removed[0], key="", task="", position=size, data=b"")
    left = [it for it in fit if it.key and not first <= it.seq <= last]
    return sorted([*left, note], key=lambda it: it.seq)


def middle_of(sizes: Sequence[tuple[int, int]]) -> tuple[int, int]:
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
