"""When a run is frozen, and how it is loaded: from its latest snapshot and what the journal has after it.

The journal grows by at least as much as the last snapshot was long before the next one is written. So all snapshots of a
run together are no longer than its journal and the last of them: a run costs O(n + e) in all, however long it gets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from asterism.kernel.journal import JournalMismatch, Record
from asterism.kernel.machine import Machine
from asterism.kernel.packing import packer
from asterism.kernel.run import Run
from asterism.kernel.snapshot import Snapshot, restore_snapshot, take_snapshot
from asterism.runtime.code_version import code_version
from asterism.runtime.ports.store import Store

INTERVAL_CHARS = 64_000
"""Characters of journal between two snapshots, at least; less than that is replayed as fast as a snapshot is read."""


class SnapshotPolicy:
    """Says when one run is to be frozen.

    Args:
        spacing: characters of journal between two snapshots, at least.
        grown: how far the journal goes beyond the last snapshot.
        last: length of the last snapshot.
    """

    def __init__(self, spacing: int = INTERVAL_CHARS, grown: int = 0, last: int = 0) -> None:
        self.interval_chars = spacing
        self._grown = grown
        self._last = last

    def after(self, run: Run[Any], records: Iterable[Record]) -> Snapshot | None:
        """The snapshot that is to be written with these records, if one is due. A run that has ended needs none any more."""
        self._grown += sum(len(record.body) for record in records)
        if self._grown < max(self.interval_chars, self._last) or run.ended or not (made_by := code_version(run.machine)):
            return None
        snapshot = take_snapshot(run, made_by)
        self._grown, self._last = 0, len(snapshot.body) if snapshot else 0
        return snapshot


async def load(store: Store, machine: Machine[Any], run_id: str, interval_chars: int = INTERVAL_CHARS) -> tuple[Run[Any], SnapshotPolicy]:
    """A run as its journal has it.

    Raises:
        RunNotFound: no such run.
        JournalMismatch: the journal cannot be replayed.
    """
    snapshot = await store.snapshot(run_id)
    thawed = restore_snapshot(machine, snapshot, code_version(machine)) if snapshot else None
    # One that is newer than its journal would have its owner append after what is not there.
    if snapshot is not None and thawed is not None and snapshot.seq <= (await store.run(run_id)).seq:
        try:
            return await _read_on(store, thawed, interval_chars, len(snapshot.body))
        except JournalMismatch:
            pass  # a snapshot that its own journal does not fit is as good as none
    return await _read_on(store, Run(machine, run_id), interval_chars, 0)


async def _read_on(store: Store, live: Run[Any], spacing: int, last: int) -> tuple[Run[Any], SnapshotPolicy]:
    records = await store.records(live.id, after=live.seq)
    unpack = packer(live.machine).unpack
    live.replay(unpack(record) for record in records)
    return live, SnapshotPolicy(spacing, sum(len(record.body) for record in records), last)
