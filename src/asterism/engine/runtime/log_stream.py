"""Read and follow the logs of a run and of the runs below it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from asterism.engine.ports.logs import ALL_OUTPUT, LogChunk, LogQuery
from asterism.engine.ports.store import RunReader
from asterism.engine.runtime.lookup import MAX_RUNS

POLL_S = 0.2
"""Seconds between two reads of logs that grow."""
MAX_CHUNKS = 64
"""Chunks of one read: few, because one may have 64 KiB."""


def continued(chunks: Iterable[LogChunk]) -> list[LogChunk]:
    """Return the chunks of another store as those to add to a store, with their gaps."""
    ends: dict[tuple[str, str], int] = {}
    found = []
    for chunk in chunks:
        place = chunk.key, chunk.stream
        skipped = chunk.position - ends.get(place, 0) if chunk.key else 0
        ends[place] = chunk.position + len(chunk.data)
        if chunk.key:
            found.append(msgspec.structs.replace(chunk, skipped=max(0, skipped)))
    return found


async def read_chunks(
    store: RunReader, runs: Sequence[str], query: LogQuery = ALL_OUTPUT, *, after: int = 0, until: int | None = None
) -> AsyncIterator[LogChunk]:
    """Yield the chunks of some runs with a seq greater than ``after``, in order.

    Args:
        store: holds the logs.
        runs: ids of the runs.
        query: which chunks.
        after: seq after which they begin.
        until: seq after which nothing more is read; None to read all.
    """
    while (until is None or after < until) and (chunks := await store.logs(runs, query, after=after, limit=MAX_CHUNKS)):
        after = chunks[-1].seq
        for chunk in chunks:
            yield chunk


async def follow_logs(store: RunReader, run_id: str, *, until_now: bool = False) -> AsyncIterator[LogChunk]:
    """Yield the chunks of a run and of the runs below it, as they are written, until the run ends.

    Args:
        store: holds the logs.
        run_id: id of the run.
        until_now: end with the last chunk that exists now.

    Raises:
        RunNotFound: no such run.
    """
    after = 0
    while True:
        row = await store.run(run_id)  # first: what an ended run has printed can then be read
        tree = [it.run_id for it in await store.runs(root=row.root, limit=MAX_RUNS)]
        below = [it for it in tree if it == run_id or it.startswith(f"{run_id}.")]  # see child_run_id
        async for chunk in read_chunks(store, below, after=after):
            after = chunk.seq
            yield chunk
        if until_now or row.status == "ended":
            return
        await asyncio.sleep(POLL_S)
