"""The schedules of the store in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from asterism.engine.ports.schedules import MAX_FIRINGS, Firing, FiringStatus, LastFiring, Schedule
from asterism.engine.ports.store import RunRow
from asterism.errors import InvalidInput


class ScheduleMemory:
    """The schedules and firings that all handles share, by their keys, and the runs."""

    def __init__(self, runs: Mapping[str, RunRow]) -> None:
        self.runs = runs
        self.schedules: dict[tuple[str, str], Schedule] = {}
        self.firings: dict[tuple[str, str, float], Firing] = {}


class MemorySchedules:
    """The part of ``MemoryStore`` that holds schedules."""

    _begin: Callable[..., Awaitable[None]]
    _scheduled: ScheduleMemory

    async def add_schedule(self, row: Schedule) -> None:
        await self._begin("schedule")
        if (row.tenant, row.name) in self._scheduled.schedules:
            raise InvalidInput(f"there is a schedule {row.name!r} already; remove it first, or choose another name")
        self._scheduled.schedules[row.tenant, row.name] = row

    async def replace_schedule(self, row: Schedule, *, before: Schedule, firings: Sequence[Firing] = ()) -> bool:
        await self._begin("schedule")
        scheduled = self._scheduled
        if scheduled.schedules.get((before.tenant, before.name)) != before:
            return False
        scheduled.schedules[row.tenant, row.name] = row
        for it in firings:
            scheduled.firings.setdefault((it.tenant, it.schedule, it.due_at), it)
        there = self._firings(row.tenant, row.name, None)
        last = max((it.due_at for it in there if it.status == "started"), default=float("inf"))
        for it in there[MAX_FIRINGS:]:
            if it.status != "due" and it.due_at < last:
                del scheduled.firings[it.tenant, it.schedule, it.due_at]
        return True

    async def remove_schedule(self, tenant: str, name: str) -> bool:
        await self._begin("schedule")
        scheduled = self._scheduled
        scheduled.firings = {key: it for key, it in scheduled.firings.items() if key[:2] != (tenant, name)}
        return scheduled.schedules.pop((tenant, name), None) is not None

    async def schedules(self, tenant: str | None = None, *, name: str | None = None, due_by: float | None = None) -> list[Schedule]:
        await self._begin()
        return [
            it
            for _, it in sorted(self._scheduled.schedules.items())
            if tenant in (None, it.tenant) and name in (None, it.name) and (due_by is None or (not it.paused and it.next_at <= due_by))
        ]

    async def settle_firing(self, firing: Firing) -> None:
        await self._begin("schedule")
        key = (firing.tenant, firing.schedule, firing.due_at)
        there = self._scheduled.firings.get(key)
        if there and there.status == "due":
            self._scheduled.firings[key] = firing

    async def firings(
        self, tenant: str | None = None, schedule: str | None = None, *, status: FiringStatus | None = None, limit: int = 100
    ) -> list[Firing]:
        await self._begin()
        return self._firings(tenant, schedule, status)[:limit]

    async def last_firings(self, tenant: str | None = None) -> list[LastFiring]:
        await self._begin()
        found = []
        for there, name in sorted(self._scheduled.schedules):
            if tenant in (None, there) and (settled := [it for it in self._firings(there, name, None) if it.status != "due"]):
                run = self._scheduled.runs.get(settled[0].run_id)
                found.append(LastFiring(**msgspec.structs.asdict(settled[0]), outcome=run.outcome if run else ""))
        return found

    def _firings(self, tenant: str | None, schedule: str | None, status: FiringStatus | None) -> list[Firing]:
        found = [
            it
            for it in self._scheduled.firings.values()
            if tenant in (None, it.tenant) and schedule in (None, it.schedule) and status in (None, it.status)
        ]
        return sorted(found, key=lambda it: (-it.due_at, it.tenant, it.schedule))
