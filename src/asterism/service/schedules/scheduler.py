"""Start what schedules have due. Whatever is killed, each due time starts its run once."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable

import msgspec

from asterism.engine.ports.notices import Notice
from asterism.engine.ports.schedules import Firing, Schedule
from asterism.engine.ports.store import Store
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.task_group import do_each
from asterism.errors import AsterismError, InvalidInput, RunNotFound, StoreUnavailable
from asterism.service.schedules.firing import failed, fired, not_beyond

PAUSE_S = 1.0
"""Seconds between two looks at the schedules: any process may add one."""
MAX_REASON = 500
FIRINGS = 100
"""Due times whose runs are started after one look."""
STARTS_AT_ONCE = 4
"""Runs that are started at once: a plan whose import hangs delays few others."""

Start = Callable[[Schedule, Firing], Awaitable[None]]
"""Submits the run of a firing, with the id that the firing names. Raises an ``AsterismError`` if it cannot be."""

Warn = Callable[[str], None]
"""Reports a schedule that could not start its run, in one line."""


class Scheduler:
    """Records due times, and then starts their runs.

    Several may serve one store: of two that see the same due time, one records it.

    Args:
        store: the store of the runs and the schedules.
        clock: the current time.
        start: submits a run.
        warn: reports each run that could not be started.
    """

    def __init__(self, store: Store, clock: Clock, start: Start, warn: Warn = lambda _: None) -> None:
        self._store = store
        self._clock = clock
        self._start = start
        self._looked_at = math.inf
        self._warn = warn

    async def serve(self) -> None:
        """Do what is due until cancelled. A store that is unavailable is tried again.

        A plan that takes long to read delays no due time: these are recorded meanwhile.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(_repeated(self.record_due))
            group.create_task(_repeated(self.start_recorded))

    async def start_due(self) -> None:
        """Record what is due now, and start all runs that are recorded and not submitted.

        Raises:
            StoreUnavailable: the store failed; what is recorded is started the next time.
        """
        await self.record_due()
        await self.start_recorded()

    async def record_due(self) -> None:
        """Record what is due now. Raises StoreUnavailable."""
        now = self._clock.now()
        if now < self._looked_at:  # the first look, or the clock went back
            await self._set_back(now)
        self._looked_at = now
        for schedule in await self._store.schedules(due_by=now):
            await self._record(schedule, now)

    async def start_recorded(self) -> None:
        """Start the runs that are recorded and not submitted, the oldest first. Raises StoreUnavailable."""
        waiting = sorted(await self._store.firings(status="due", limit=FIRINGS), key=lambda it: it.due_at)
        await do_each(waiting, self._settle, at_once=STARTS_AT_ONCE)

    async def _set_back(self, now: float) -> None:
        for schedule in await self._store.schedules():
            with contextlib.suppress(InvalidInput):  # recorded when it is due
                if not schedule.paused and (sooner := not_beyond(schedule, now)) != schedule:
                    await self._store.replace_schedule(sooner, before=schedule)

    async def _record(self, schedule: Schedule, now: float) -> None:
        try:
            after, firings = fired(schedule, now, unfinished=await self._unfinished(schedule))
        except StoreUnavailable:
            raise
        except AsterismError as error:  # a time zone may be gone after an update of the system
            after, firings = msgspec.structs.replace(schedule, paused=True), [failed(schedule, schedule.next_at, str(error))]
            await self._report(firings[0])
        await self._store.replace_schedule(after, before=schedule, firings=firings)

    async def _unfinished(self, schedule: Schedule) -> str:
        """Return the id of the last run of a schedule; empty if it has ended, or if there is none."""
        for status in ("due", "started"):
            for firing in await self._store.firings(schedule.tenant, schedule.name, status=status, limit=1):
                with contextlib.suppress(RunNotFound):  # it was pruned
                    if status == "due" or (await self._store.run(firing.run_id)).status != "ended":
                        return firing.run_id
        return ""

    async def _settle(self, firing: Firing) -> None:
        found = await self._store.schedules(firing.tenant, name=firing.schedule)
        if not found:  # removed meanwhile, with its firings
            return
        problem = ""
        if not await self._is_submitted(firing):
            try:
                await self._start(found[0], firing)
            except StoreUnavailable:
                raise
            except AsterismError as error:
                problem = str(error)[:MAX_REASON]
        if problem and not await self._is_submitted(firing):  # another process may have been faster
            failure = failed(found[0], firing.due_at, problem)
            await self._report(failure)
            await self._store.settle_firing(failure)
        else:
            await self._store.settle_firing(msgspec.structs.replace(firing, status="started"))

    async def _report(self, failure: Firing) -> None:
        """Report that a run could not be started: each time to the log, and to people unless the last start failed, too."""
        found = await self._store.firings(failure.tenant, failure.schedule, limit=FIRINGS)
        last = next((it.status for it in found if it.due_at < failure.due_at and it.status != "skipped"), "")
        if last != "failed":
            now = self._clock.now()
            await self._store.add_notice(
                Notice(kind="not_started", tenant=failure.tenant, subject=failure.schedule, text=failure.reason, at=now)
            )
        self._warn(f"schedule {failure.schedule} could not start its run: {failure.reason}")

    async def _is_submitted(self, firing: Firing) -> bool:
        try:
            await self._store.run(firing.run_id)
        except RunNotFound:
            return False
        return True


async def _repeated(work: Callable[[], Awaitable[None]]) -> None:
    while True:
        with contextlib.suppress(StoreUnavailable):
            await work()
        await asyncio.sleep(PAUSE_S)
