"""The origin of a run: which run it was copied from, as its journal says."""

from __future__ import annotations

from asterism.constellation.machine.events import Retry
from asterism.engine.control.run_control import Cancel, Forked
from asterism.engine.kernel.machine import kind_of
from asterism.engine.ports.store import RunRow, Store
from asterism.errors import RunNotFound
from asterism.service.api.models import OriginModel, json_of

READ = 100
"""Entries that are read at the beginning of a copy. The one that made it is the first one, unless the clock stood still."""


async def origin_of(store: Store, row: RunRow) -> OriginModel | None:
    """Return what a run was copied from; None for a run that is no copy. Raises RunNotFound if it was deleted meanwhile.

    The entry that made the copy is as old as the run, and those before it were copied and are older. So a few entries
    are read, however long the journal is.
    """
    if row.parent or row.session in ("", row.run_id):
        return None
    copied, end = 0, row.seq
    while copied < end:  # the first `copied` entries are older than the run
        middle = (copied + end) // 2
        found = await store.records(row.run_id, after=middle, limit=1)
        if not found:  # it was deleted after its row was read
            raise RunNotFound(row.run_id)
        copied, end = (middle + 1, end) if found[0].at < row.created_at else (copied, middle)
    records = await store.records(row.run_id, after=copied, limit=READ)
    at = next((at for at, it in enumerate(records) if it.kind == kind_of(Forked)), None)
    if at is None:  # a later run of the session
        return None
    forked = json_of(records[at].body)["event"]
    after = await store.records(forked["origin"], after=forked["seq"], limit=1)  # a retry of a cancelled run goes on before its cancel
    is_retry = any(it.kind == kind_of(Retry) for it in records[at + 1 : at + 2]) or any(it.kind == kind_of(Cancel) for it in after)
    try:
        created_at = (await store.run(forked["origin"])).created_at
    except RunNotFound:
        created_at = 0.0
    return OriginModel(run_id=forked["origin"], seq=forked["seq"], is_retry=is_retry, created_at=created_at)
