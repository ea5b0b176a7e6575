"""The lists that change: which runs and questions a client has to read again.

Known at once are the changes of the runs that this process drives. Of others, those of the newest runs are found by looking.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
from collections.abc import Sequence
from typing import Literal

import msgspec

from asterism.devices.model.attempt import DeviceFound, DeviceLost
from asterism.engine.kernel.journal import Entry
from asterism.engine.ports.store import RunQuery, RunStatus, Store
from asterism.engine.runtime.run_status import closed_inquiries, opened_inquiries
from asterism.errors import RunNotFound

Topic = Literal["runs", "inquiries", "devices"]

MAX_CHANGES = 1000
"""Changes that are remembered; a client that has missed more reads its lists again."""
NEWEST = 100
"""Newest runs that are looked at."""


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has new entries, or none; the questions that they opened or closed; the devices that have another state."""

    run_id: str = ""
    inquiries: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


class Changes:
    """The last changes of the runs that this process drives, and of devices, numbered from 1."""

    def __init__(self) -> None:
        self.number = 0
        self._log: collections.deque[_Change] = collections.deque(maxlen=MAX_CHANGES)
        self._awaited: dict[str, asyncio.Event] = {}

    async def wait(self, run_id: str, timeout_s: float) -> None:
        """Return when this process has appended to a run, or after a time."""
        appended = self._awaited.setdefault(run_id, asyncio.Event())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await appended.wait()
        finally:
            if self._awaited.get(run_id) is appended:
                del self._awaited[run_id]

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Note a change."""
        asked = [row.inquiry_id for entry in entries for row in opened_inquiries(entry)]
        closed = [inquiry_id for entry in entries for inquiry_id, _ in closed_inquiries(entry)]
        devices = {entry.event.device for entry in entries if isinstance(entry.event, DeviceLost | DeviceFound)}
        self._note(_Change(run_id=run_id, inquiries=(*asked, *closed), devices=tuple(devices)))

    def device_changed(self, device_id: str) -> None:
        """Note that a device has another state."""
        self._note(_Change(devices=(device_id,)))

    def _note(self, change: _Change) -> None:
        self._log.append(change)
        self.number += 1
        if awaited := self._awaited.pop(change.run_id, None):
            awaited.set()

    def since(self, number: int) -> list[_Change] | None:
        """Return the changes after a number; None if some of them are forgotten."""
        missing = self.number - number
        return None if missing > len(self._log) else list(self._log)[len(self._log) - missing :]


class ListWatcher:
    """What one client has to read again: ids by topic, or None for the whole list."""

    def __init__(self, store: Store, changes: Changes, tenant: str, topics: Sequence[Topic]) -> None:
        self._store = store
        self._changes = changes
        self._tenant = tenant
        self._topics = topics
        self._seen = -1
        self._newest: dict[str, tuple[int, RunStatus]] = {}

    async def changed(self) -> dict[Topic, list[str] | None]:
        """Return what has changed since the last call; at the first one, every list."""
        rows = await self._store.find_runs(RunQuery(tenant=self._tenant), limit=NEWEST)
        newest = {row.run_id: (row.seq, row.status) for row in rows}
        before, self._newest = self._newest, newest
        log = self._changes.since(self._seen) if self._seen >= 0 else None
        self._seen = self._changes.number
        if log is None:
            return {topic: None for topic in self._topics}  # noqa: C420 - for the type of the values
        runs = {run_id: None for run_id, now in newest.items() if before.get(run_id) != now}
        asked: dict[str, None] = {}
        devices: dict[str, None] = {}
        for change in log:
            devices |= dict.fromkeys(change.devices)
            if change.run_id in runs or (change.run_id and await self._is_ours(change.run_id)):
                runs[change.run_id] = None
                asked |= dict.fromkeys(change.inquiries)
        found: dict[Topic, list[str] | None] = {"runs": list(runs), "inquiries": list(asked), "devices": list(devices)}
        return {topic: ids for topic, ids in found.items() if ids and topic in self._topics}

    async def _is_ours(self, run_id: str) -> bool:
        try:
            await self._store.run(run_id, tenant=self._tenant)
        except RunNotFound:
            return False
        return True
