"""Follow a journal as it grows: for live views, streams and `log --follow`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from asterism.engine.kernel.journal import Entry, Record, check_whole
from asterism.engine.kernel.machine import Machine
from asterism.engine.kernel.packing import packer
from asterism.engine.ports.store import RunReader

POLL_S = 0.2
"""Seconds between two reads of a journal."""
MAX_RECORDS = 1000
"""Records of one batch."""


async def follow(store: RunReader, run_id: str, after: int = 0, *, until_now: bool = False) -> AsyncIterator[list[Record]]:
    """Yield the records of a run after an entry in batches, as they are written, until it ends.

    Args:
        store: holds the journal.
        run_id: id of the run.
        after: seq of the last entry that the caller has.
        until_now: end with the last record that exists now, even if the run has not ended.

    Raises:
        RunNotFound: no such run.
        JournalMismatch: the journal ends before the run's row says.
    """
    while True:
        row = await store.run(run_id)  # read the row first: the entries that it counts can then be read
        records = await store.records(run_id, after=after, limit=MAX_RECORDS)
        if records:
            after = records[-1].seq
            yield records
        if len(records) == MAX_RECORDS:
            continue
        check_whole(run_id, row.seq, after)
        if until_now or row.status == "ended":
            return
        await asyncio.sleep(POLL_S)


async def follow_entries(store: RunReader, machine: Machine[Any], run_id: str, after: int = 0) -> AsyncIterator[list[Entry]]:
    """Yield the entries of a run as ``follow`` yields its records, as views read them."""
    unpack = packer(machine).unpack
    async for records in follow(store, run_id, after):
        yield [unpack(record) for record in records]
