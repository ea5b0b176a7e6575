"""The embedded engine: it acquires the runs that are due, and has them driven in this process.

It is level-triggered: each look finds everything that is due, so a missed wake-up costs a second at
most. It needs nothing but the store, and other engines rely on it for what they miss.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence

from asterism.engine.ports.store import RunRow, Store
from asterism.engine.runtime.clock import Clock
from asterism.errors import StoreUnavailable

Drive = Callable[[RunRow], Coroutine[None, None, None]]
"""Drives an acquired root run as far as it goes, and releases it. It raises nothing for a problem of
the run. When it is cancelled, it releases the run so that the next owner loses nothing."""
LOOK_S = 1.0
"""The longest time between two looks at the store."""


class DueRunsEngine:
    """An engine that looks for due runs in the store.

    Args:
        store: holds the runs.
        clock: says what is due.
        fleets: names of the fleets whose runs are driven; ``""`` for runs without one.
        warn: called with a problem of the store.
        idle_kinds: as in ``Store.acquire_due``, of the forms that are driven here.
        look_s: the longest time between two looks at the store.
        before: called before each look; it gives runs what they wait for.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        fleets: Sequence[str],
        warn: Callable[[str], None],
        *,
        idle_kinds: Collection[str],
        look_s: float = LOOK_S,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._fleets = fleets
        self._warn = warn
        self._idle_kinds = idle_kinds
        self._look_s = look_s
        self._before = before

    async def serve(self, drive: Drive, *, concurrency: int) -> None:
        """Have due runs driven until this is cancelled, and then return when all are released.

        Args:
            drive: called with the row of each run that this engine has acquired.
            concurrency: the most runs that are driven at once.
        """
        async with asyncio.TaskGroup() as group:
            driving: set[asyncio.Task[None]] = set()
            while True:
                free = concurrency - len(driving)
                rows = await self._acquire(group, free) if free else []
                for row in rows:
                    task = group.create_task(drive(row), name=f"drives {row.run_id}")
                    driving.add(task)
                    task.add_done_callback(driving.discard)
                if not free:
                    await asyncio.wait(driving, return_when=asyncio.FIRST_COMPLETED)
                elif len(rows) < free:
                    await self._wait()

    async def _acquire(self, group: asyncio.TaskGroup, limit: int) -> list[RunRow]:
        acquiring = group.create_task(self._acquired(limit), name="acquires due runs")
        try:
            found = await asyncio.shield(acquiring)
        except asyncio.CancelledError:  # the store may have acquired runs, which nobody would drive
            found = await acquiring
            with contextlib.suppress(StoreUnavailable):  # this process ends, and then they are due
                for row in [] if isinstance(found, StoreUnavailable) else found:
                    await self._store.release(row.run_id, row.epoch, force=True)
            raise
        if isinstance(found, StoreUnavailable):
            self._warn(f"{found}; looking again in {self._look_s:g} s")
            await asyncio.sleep(self._look_s)
            return []
        return found

    async def _acquired(self, limit: int) -> list[RunRow] | StoreUnavailable:
        try:
            if self._before is not None:
                await self._before()
            return await self._store.acquire_due(limit, fleets=self._fleets, now=self._clock.now(), idle_kinds=self._idle_kinds)
        except StoreUnavailable as error:
            return error

    async def _wait(self) -> None:
        try:
            await self._store.wait_for_work(self._look_s)
        except StoreUnavailable:  # the next look says so
            await asyncio.sleep(self._look_s)
