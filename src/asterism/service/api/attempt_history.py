"""What the devices do and have done: the attempts of the runs that were active in a period, folded from their journals.

A journal says only as a whole which attempts it has. So what was folded is remembered, and a run is read on from there.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.kernel.packing import packer
from asterism.engine.ports.store import RunQuery, RunRow, Store
from asterism.engine.runtime.form import Form, form_of
from asterism.errors import AsterismError
from asterism.service.api.feeds import PAGE
from asterism.views.view import RunView, unread_view

MAX_RUNS = 200
"""Runs that one read looks at, the newest first; as many are remembered."""
MAX_ENTRIES = 50_000
"""Entries that one read folds; another one continues."""


class DeviceAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt at a task of a run.

    Attributes:
        run: the run.
        effect_id: id of the attempt.
        row: its story row, with the ``device``, and the ``name`` of its task.
    """

    run: RunRow
    effect_id: str
    row: Mapping[str, Any]

    def overlaps(self, begin: float, end: float) -> bool:
        """Return True if a part of it was in a period."""
        ended: float | None = self.row.get("ended_at")
        return float(self.row["began_at"]) < end and (ended is None or ended >= begin)


class DeviceWork(msgspec.Struct, frozen=True, kw_only=True):
    """What the devices have done in a period.

    Attributes:
        attempts: the attempts, the last begun first.
        lost: devices that an unfinished run has lost, by id, with the reason.
        is_whole: False if not all of the period's runs were read.
    """

    attempts: list[DeviceAttempt]
    lost: dict[str, str]
    is_whole: bool


class _Folded:
    """What was read of one run: its attempts, and the view that reads on; None once the run has ended."""

    def __init__(self, view: RunView) -> None:
        self.view: RunView | None = view
        self.attempts: dict[str, dict[str, Any]] = {}
        self.lost: dict[str, str] = {}
        self.seq = 0

    def read(self, view: RunView, entries: Iterable[Any]) -> None:
        for delta in view.read(entries):
            self.seq = delta.seq
            if delta.kind == "forked":
                self.attempts.clear()  # they are those of the origin
            for row_id, fields in delta.put.items():
                kind, _, effect_id = row_id.partition(":")
                if kind == "attempt" and (effect_id in self.attempts or "began_at" in fields or "retried_at" in fields):
                    self._put(effect_id, {"began_at": delta.at, **self.attempts.get(effect_id, {}), **fields}, view)
        self.lost = {row_id[7:]: row["reason"] or "" for row_id, row in view.rows.items() if row_id.startswith("device:") and row["lost"]}

    def _put(self, effect_id: str, row: dict[str, Any], view: RunView) -> None:
        task = view.rows.get(f"task:{row['part']}", {})
        self.attempts[effect_id] = {"device": task.get("device") or "", "name": "", **row, **({"name": task["name"]} if task else {})}


class AttemptHistory:
    """Reads the attempts of runs of constellations, and remembers those of the runs that were read last."""

    def __init__(self, store: Store, forms: Mapping[str, Form]) -> None:
        self._store = store
        self._forms = forms
        self._known: collections.OrderedDict[str, _Folded] = collections.OrderedDict()
        self._reading = asyncio.Lock()

    async def read(self, tenant: str, *, begin: float, end: float, device: str = "") -> DeviceWork:
        """Return what the devices of the runs of a tenant have done in a period.

        Args:
            tenant: as in ``RunQuery``.
            begin: begin of the period, in seconds since the epoch.
            end: its end.
            device: a device; empty for all.
        """
        query = RunQuery(tenant=tenant, machine=CONSTELLATION_AGENT.name, created_before=end, roots_only=False)
        rows = await self._store.find_runs(query, limit=MAX_RUNS)
        attempts, lost, is_whole, left = list[DeviceAttempt](), dict[str, str](), len(rows) < MAX_RUNS, MAX_ENTRIES
        async with self._reading:
            for row in rows:
                if row.status == "ended" and row.updated_at < begin:
                    continue
                folded, read = await self._folded(row, left)
                left -= read
                is_whole = is_whole and folded is not None and folded.seq >= row.seq
                if folded is None:
                    continue
                found = (DeviceAttempt(run=row, effect_id=effect_id, row={**it}) for effect_id, it in folded.attempts.items())
                attempts += [it for it in found if it.overlaps(begin, end) and device in ("", it.row["device"])]
                if row.status != "ended":
                    lost |= folded.lost
        return DeviceWork(attempts=sorted(attempts, key=lambda it: -it.row["began_at"]), lost=lost, is_whole=is_whole)

    async def _folded(self, row: RunRow, most: int) -> tuple[_Folded | None, int]:
        """Return what is read of a run, and how many entries were read for it; None for a run that cannot be read here."""
        folded, read = self._known.get(row.run_id), 0
        try:
            form = form_of(row, self._forms)
            folded = folded or _Folded(unread_view(form, row.run_id))
            while folded.view is not None and folded.seq < row.seq and read < most:
                records = await self._store.records(row.run_id, after=folded.seq, limit=PAGE)
                folded.read(folded.view, map(packer(form.machine).unpack, records))
                read += len(records)
                if not records:
                    break
        except AsterismError:  # it cannot be replayed here, or was deleted meanwhile; the others are not affected
            self._known.pop(row.run_id, None)
            return None, read
        if row.status == "ended" and folded.seq >= row.seq:
            folded.view = None
        self._known[row.run_id] = folded
        self._known.move_to_end(row.run_id)
        if len(self._known) > MAX_RUNS:
            self._known.popitem(last=False)
        return folded, read
