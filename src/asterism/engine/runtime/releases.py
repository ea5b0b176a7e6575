"""Release runs: when they park or end, when a problem ends their drive, and when their process ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from asterism.engine.control.children import ChildBlocked
from asterism.engine.control.run_control import OwnershipAcquired
from asterism.engine.kernel.journal import Entry
from asterism.engine.ports.store import RunRow, Store
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.problems import NO_PROGRESS, retry_delay_s
from asterism.engine.runtime.run_executor import RunExecutor
from asterism.errors import StoreUnavailable

DRAIN_POLL_S = 0.05
"""Seconds between two looks whether the work under way has ended."""


class Releases:
    """Releases the runs of one driver.

    Args:
        store, clock: of the driver.
        executors: its runs, by id.
        warn: called with a run's id and a problem.
    """

    def __init__(self, store: Store, clock: Clock, executors: Mapping[str, RunExecutor], warn: Callable[[str, str], None]) -> None:
        self._store = store
        self._clock = clock
        self._executors = executors
        self._warn = warn
        self._progressed: set[str] = set()
        self._draining: set[str] = set()

    def note_progress(self, root: str, entries: Sequence[Entry]) -> None:
        """Note that the journals of a tree have grown, beyond the entries that each new owner causes."""
        if root not in self._progressed and any(not isinstance(entry.event, OwnershipAcquired | ChildBlocked) for entry in entries):
            self._progressed.add(root)

    def forget(self, run_id: str) -> None:
        """Forget the progress of a run that is not driven any more."""
        self._progressed.discard(run_id)

    async def park(self, row: RunRow, epoch: int) -> bool:
        """Release a run that has ended, or that waits for a person or a time; False if something has arrived.

        A root is due again at the earliest timer of its tree.
        """
        run = self._executors[row.run_id].run
        if run.ended or row.root != row.run_id:
            return await self._store.release(row.run_id, epoch)
        tree = (it.run.memory.due_at() for it in self._executors.values() if it.root == row.root)
        wake_at, now = min((at for at in tree if at is not None), default=None), self._clock.now()
        if wake_at is None or wake_at > now or row.run_id in self._progressed:
            return await self._store.release(row.run_id, epoch, due_at=wake_at)
        if run.memory.paused:
            return await self._store.release(row.run_id, epoch)  # the timers that have passed fire when it goes on
        return await self._store.release(row.run_id, epoch, due_at=now + retry_delay_s(row.tries), problem=NO_PROGRESS)

    async def until_gone(self, row: RunRow) -> None:
        """Wait until the last drive of a run here has ended: it may release the run before its last steps.

        When this is cancelled, the run is released: this process has acquired it again.
        """
        try:
            while row.run_id in self._executors:  # noqa: ASYNC110 - it has been released, so its last steps follow
                await asyncio.sleep(DRAIN_POLL_S)
        except asyncio.CancelledError:
            await asyncio.shield(self.force(row, row.epoch))
            raise

    async def force(self, row: RunRow, epoch: int, problem: str = "") -> bool:
        """Release a run whose drive has ended early; return False if the store failed.

        It is due at once, or after a growing delay if the drive ended with a problem.
        """
        due_at = self._clock.now() + retry_delay_s(row.tries) if problem else None
        try:
            await self._store.release(row.run_id, epoch, force=True, due_at=due_at, problem=problem)
        except StoreUnavailable as error:
            self._warn(row.run_id, f"it could not be released: {error}")
            return False
        return True

    async def force_later(self, row: RunRow, epoch: int, problem: str) -> None:
        """Try to release a run until it works: a process that stays would own it, and not drive it."""
        tries = 0
        await asyncio.sleep(retry_delay_s(tries))
        while not await self.force(row, epoch, problem):  # bounded by the life of the driver
            tries += 1
            await asyncio.sleep(retry_delay_s(tries))

    def is_draining(self, root: str) -> bool:
        """Return True while a tree is prepared for a release by force."""
        return root in self._draining

    async def drain(self, root: str, grace_s: Callable[[], float]) -> None:
        """Prepare a tree for a release by force; return when nothing would be lost.

        What ends is recorded, and nothing new starts. Work that must not be repeated has ``grace_s()``
        seconds to end, which may become fewer meanwhile.
        """
        self._draining.add(root)
        waited = 0.0
        try:
            while True:  # bounded by the grace period
                tree = [it for it in self._executors.values() if it.root == root]
                for executor in tree:
                    executor.is_draining = True
                if waited >= grace_s() or all(executor.is_settled for executor in tree):
                    break
                await asyncio.sleep(DRAIN_POLL_S)
                waited += DRAIN_POLL_S
        finally:
            self._draining.discard(root)
