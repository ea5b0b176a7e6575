"""The timer of one owned run: it wakes the run at the time that its memory names."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from asterism.engine.kernel.backoff import Backoff
from asterism.engine.runtime.clock import Clock

PAST_WAKES = Backoff(0.001, 1.0)
"""Delays between two looks at a ``wake_at()`` that is in the past although ``BatchEnded`` changed nothing."""
LONGEST_WAIT_S = 10.0
"""Longest time between two looks at the wall clock: the event loop's time does not follow when somebody sets it."""
CLOCK_DRIFT_S = 0.05
"""How far the wall clock may drift from the loop's time before a timer is set again."""


class WakeupTimer:
    """Wakes a run at a time.

    Args:
        clock: the wall clock, which the times are of.
        wake: called at the time.
        warn: called when the run returns a past time again and again, and changes nothing then.

    Attributes:
        idle_at: when ``BatchEnded`` last changed nothing; minus infinity if it has just changed something.
    """

    def __init__(self, clock: Clock, wake: Callable[[], None], warn: Callable[[], None]) -> None:
        self.idle_at = -math.inf
        self._clock = clock
        self._wake = wake
        self._warn = warn
        self._past_looks = 0
        self._timer: tuple[float, asyncio.TimerHandle] | None = None  # and the time that it is set for

    def set(self, wake_at: float | None) -> None:
        """Wake the run at a time. Most waits of a run have the same one, so its timer is reused."""
        if self._timer is not None and self._timer[0] == wake_at and self._is_on_time(*self._timer):
            return
        self.drop()
        if wake_at is not None:
            delay = min(self._seconds_until(wake_at), LONGEST_WAIT_S)
            self._timer = wake_at, asyncio.get_running_loop().call_later(delay, self._look, wake_at)

    def drop(self) -> None:
        """Wake the run no more."""
        if self._timer is not None:
            self._timer[1].cancel()
        self._timer = None

    def _is_on_time(self, wake_at: float, timer: asyncio.TimerHandle) -> bool:
        """Return True if a timer is not too late: one that looks too early is set again."""
        if wake_at <= self.idle_at:
            return True  # this timer is a repeat look at a past wake_at
        due = asyncio.get_running_loop().time() + wake_at - self._clock.now()
        return timer.when() <= due + CLOCK_DRIFT_S

    def _look(self, wake_at: float) -> None:
        self._timer = None
        if self.idle_at < wake_at and self._clock.now() < wake_at:
            self.set(wake_at)
        else:
            self._wake()

    def _seconds_until(self, wake_at: float) -> float:
        """Return the seconds until a time; a growing delay if ``BatchEnded`` changed nothing at it."""
        if wake_at > self.idle_at:
            self._past_looks = 0
            return wake_at - self._clock.now()
        self._past_looks += 1
        wait_s = PAST_WAKES.wait_s(self._past_looks)
        if PAST_WAKES.wait_s(self._past_looks - 1) < wait_s == PAST_WAKES.longest_s:
            self._warn()
        return wait_s
