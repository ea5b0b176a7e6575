"""Take snapshots of runs, and load a run from its latest snapshot and the journal after it.

Before the next snapshot, the journal grows by at least the length of the last one. So all snapshots
of a run together are no longer than its journal and the last snapshot: the total cost is O(n + e),
however long the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from asterism.engine.kernel.journal import JournalMismatch, Record
from asterism.engine.kernel.machine import Machine
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.kernel.snapshot import Snapshot, restore_snapshot, take_snapshot
from asterism.engine.ports.store import Store
from asterism.engine.runtime.code_version import code_version

INTERVAL_CHARS = 64_000
"""Minimum number of journal characters between two snapshots; fewer are replayed as fast as a
snapshot is read."""


class SnapshotPolicy:
    """Decides when a snapshot of one run is due.

    Args:
        interval_chars: minimum number of journal characters between two snapshots.
        grown: journal characters since the last snapshot.
        last: length of the last snapshot, in characters.
    """

    def __init__(self, interval_chars: int = INTERVAL_CHARS, grown: int = 0, last: int = 0) -> None:
        self.interval_chars = interval_chars
        self._grown = grown
        self._last = last

    def after(self, run: Run[Any], records: Iterable[Record]) -> Snapshot | None:
        """Return the snapshot to write with these records, or None if none is due.

        A run that has ended needs none.
        """
        self._grown += sum(len(record.body) for record in records)
        if self._grown < max(self.interval_chars, self._last) or run.ended or not (made_by := code_version(run.machine)):
            return None
        snapshot = take_snapshot(run, made_by)
        self._grown, self._last = 0, len(snapshot.body) if snapshot else 0
        return snapshot


async def load(store: Store, machine: Machine[Any], run_id: str, interval_chars: int = INTERVAL_CHARS) -> tuple[Run[Any], SnapshotPolicy]:
    """Return a run as its journal has it, and its snapshot policy.

    Raises:
        RunNotFound: no such run.
        JournalMismatch: the journal cannot be replayed.
    """
    snapshot = await store.snapshot(run_id)
    restored = restore_snapshot(machine, snapshot, code_version(machine)) if snapshot else None
    # With a snapshot newer than the journal, the owner would leave a gap in the journal.
    if snapshot is not None and restored is not None and snapshot.seq <= (await store.run(run_id)).seq:
        try:
            return await _replay_rest(store, restored, interval_chars, len(snapshot.body))
        except JournalMismatch:
            pass  # the snapshot does not fit its journal: replay the whole journal
    return await _replay_rest(store, Run(machine, run_id), interval_chars, 0)


async def _replay_rest(store: Store, live: Run[Any], interval_chars: int, last: int) -> tuple[Run[Any], SnapshotPolicy]:
    records = await store.records(live.id, after=live.seq)
    unpack = packer(live.machine).unpack
    live.replay(unpack(record) for record in records)
    return live, SnapshotPolicy(interval_chars, sum(len(record.body) for record in records), last)
