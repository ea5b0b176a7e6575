"""A device that is not open: it cannot be opened on this computer, or has not answered yet and no task needs it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable

from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.runtime.task_group import in_own_task

AGAIN = Backoff(1.0, 60.0, jitter=0.5)
"""Waits before a device is opened again."""
OPENED_WITHIN_S = 5.0
"""Seconds after which a device is opened that no task has needed so far."""
_MAX_SHOWN = 300

log = logging.getLogger("asterism.devices")


class UnopenedDevice(Device):
    """A device that is not open. With a reason it counts as lost until it can be opened.

    Without one it is opened as soon as an attempt needs it, and after ``OPENED_WITHIN_S`` at the latest.

    Args:
        profile: the profile that its table gives it, without skills.
        why: the reason why it could not be opened; empty if it has not answered yet.
        open_again: opens it.
    """

    def __init__(self, profile: AgentProfile, why: str, open_again: Callable[[], Awaitable[Device]]) -> None:
        super().__init__(profile)
        self.unreachable = why
        self._open_again = open_again
        self._needed = asyncio.Event()
        self._tried = asyncio.Event()
        self._device: Device | None = None

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        if not self.unreachable:
            self._needed.set()
            await self._tried.wait()
        if self._device is not None:
            return await self._device.perform(attempt, signs)
        return AttemptResult.failed("device_lost", self.unreachable)

    async def opened(self, failed: Callable[[str], None] = lambda _: None, chance: Callable[[], float] = lambda: 0.0) -> Device:
        """Return the device as soon as it can be opened; it is tried again after growing waits.

        ``failed`` receives each reason why it could not be opened, and ``chance`` shortens the waits.
        """
        if was_lost := bool(self.unreachable):
            await asyncio.sleep(AGAIN.wait_s(1, chance()))
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OPENED_WITHIN_S):
                    await self._needed.wait()
        for tries in itertools.count(1):  # bounded: its waits grow, and it ends with the dispatcher
            try:
                self._device = await in_own_task(self._open_again)
            except Exception as error:  # boundary: a kind may raise anything while it opens a device; it is tried again
                log.info("device %s cannot be used: %s", self.profile.device_id, error)
                self.unreachable = self.unreachable or str(error) or type(error).__name__
                failed(self.unreachable)
            self._tried.set()
            if self._device is not None:
                return self._device
            await asyncio.sleep(AGAIN.wait_s(tries + was_lost, chance()))
        raise AssertionError("the count does not end")


def described(description: str, why: str) -> str:
    """Return the description of a device that cannot be used, with the reason, cut."""
    reason = " ".join(why.split())
    return f"{description} (cannot be used: {reason if len(reason) <= _MAX_SHOWN else reason[: _MAX_SHOWN - 1] + '…'})".strip()
