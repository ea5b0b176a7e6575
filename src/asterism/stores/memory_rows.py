"""Rows of runs in the store in memory: what becomes of those of a dead process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from asterism.engine.kernel.journal import Record
from asterism.engine.ports.notices import STUCK_TRIES
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.problems import CRASHED, retry_delay_s


def has_progressed(
    root: RunRow,
    runs: Mapping[str, RunRow],
    records: Mapping[str, Sequence[Record]],
    acquired_at: Mapping[str, int],
    idle_kinds: Collection[str],
) -> bool:
    """Return True if the owner of a root has recorded more than every new owner does; ``acquired_at`` has seqs by run id."""
    tree = [row.run_id for row in runs.values() if row.root == root.run_id and row.owner == root.owner]
    return any(record.kind not in idle_kinds for run in tree for record in records[run][acquired_at.get(run, 0) :])


def freed(root: RunRow, now: float, *, progressed: bool, has_unread: bool) -> RunRow:
    """Return a root whose owner is dead without it; after a growing delay, if its work may have ended that process."""
    due_at = 0.0 if root.due_at is None and (has_unread or root.status != "ended") else root.due_at
    if root.status == "ended" or progressed:
        return msgspec.structs.replace(root, owner="", due_at=due_at, tries=0, problem="")
    tries = root.tries + 1
    if tries < STUCK_TRIES:
        return msgspec.structs.replace(root, owner="", due_at=due_at, tries=tries)
    return msgspec.structs.replace(root, owner="", due_at=now + retry_delay_s(tries - STUCK_TRIES), tries=tries, problem=CRASHED)
