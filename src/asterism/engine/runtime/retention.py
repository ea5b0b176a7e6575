"""Delete what a server has kept for long enough, a little at a time, so that its runs do not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from asterism.engine.ports.files import Files
from asterism.engine.ports.store import Store
from asterism.engine.runtime.clock import DAY_S, Clock

ROUND_S = 60.0
"""Seconds between two rounds."""
RUNS_AT_ONCE = 100
"""Trees of runs that one round deletes, at most."""
FULL_ROUND_S = 1.0
"""Seconds after a round that may have left some."""
SWEEP_S = 3600.0
"""Seconds between two removals of notices, and of the contents of files that no run has."""
AHEAD_S = DAY_S
"""Seconds by which the clock may be ahead of the time that has passed."""
HELD_S = DAY_S
"""Seconds without deletions after the clock was found ahead: time to correct it."""
NOTICES_S = 30 * DAY_S
"""Seconds after which a notice is removed."""


async def all_are_old(store: Store, now: float, runs_s: float) -> bool:
    """Return True if even the newest run is old enough to be deleted, which a clock that is far ahead would explain.

    False if runs are retained for less than ``HELD_S``: then all of them may well be old.
    """
    newest = await store.runs(limit=1)
    return runs_s >= HELD_S and bool(newest) and newest[0].updated_at < now - runs_s


class Retention:
    """Deletes runs that ended long ago, the files that no run has, and old notices.

    Several may serve one store. A clock that is far ahead would make every run old. So nothing is deleted for ``HELD_S``
    after the clock has moved ahead of the time that has passed, or if at the start even the newest run is old enough;
    not so for runs that are retained for less than ``HELD_S``.

    Args:
        store: the store.
        files: the files of its runs; None if they have none.
        clock: the current time.
        warn: called with a problem of the store.
        runs_s: seconds after its end for which a run is retained; None for ever.
    """

    def __init__(self, store: Store, files: Files | None, clock: Clock, warn: Callable[[str], None], *, runs_s: float | None) -> None:
        self._store = store
        self._files = files
        self._clock = clock
        self._warn = warn
        self._runs_s = runs_s
        self._swept_at = 0.0
        self._looked: tuple[float, float] | None = None  # the clock, and the loop's time
        self._held_until = 0.0  # of the loop's time

    async def serve(self) -> None:
        """Delete until this is cancelled. A store that is unavailable is tried again."""
        while True:
            pruned = 0
            try:
                pruned = await self.prune()
            except Exception as error:  # boundary: runs go on meanwhile; a storage of files may raise anything
                self._warn(f"old runs are not deleted: {error}; trying again in {ROUND_S:g} s")
            await asyncio.sleep(FULL_ROUND_S if pruned == RUNS_AT_ONCE else ROUND_S)

    async def prune(self) -> int:
        """Perform one round; return the number of trees that were deleted, ``RUNS_AT_ONCE`` at most.

        Raises:
            StoreUnavailable: the store or the storage of files failed.
        """
        now, pruned = self._clock.now(), 0
        if await self._is_held(now):
            return 0
        if self._runs_s is not None:
            pruned = await self._store.prune(before=now - self._runs_s, limit=RUNS_AT_ONCE)
        if now - self._swept_at >= SWEEP_S:
            self._swept_at = now
            await self._store.remove_notices(before=now - NOTICES_S)
            if self._files:
                await self._files.forget([])
        return pruned

    async def _is_held(self, now: float) -> bool:
        """Return True if nothing is to be deleted yet, because the clock may be ahead."""
        time, problem = asyncio.get_running_loop().time(), ""
        if self._looked is None:
            if self._runs_s is not None and await all_are_old(self._store, now, self._runs_s):
                problem = "by the clock, all runs are old enough to be deleted"
        elif now - self._looked[0] > time - self._looked[1] + AHEAD_S:
            problem = "the clock has moved ahead by more than a day"
        self._looked = now, time
        if problem:
            self._held_until = time + HELD_S
            self._warn(f"{problem}; nothing is deleted for {HELD_S / 3600:g} h: if the clock is wrong, correct it")
        return time < self._held_until
