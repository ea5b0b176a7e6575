"""A device that is not open: it cannot be opened on this computer, or has not answered yet and no task needs it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from asterism.constellation.model.task import TaskError
from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.runtime.task_group import in_own_task

AGAIN_S = (1.0, 60.0)
"""First and longest wait before a device is opened again, in seconds."""
OPENED_WITHIN_S = 5.0
"""Seconds after which a device is opened that no task has needed so far."""
_MAX_SHOWN = 300

log = logging.getLogger("asterism.devices")


class UnopenedDevice:
    """A device that is not open. With a reason it counts as lost until it can be opened.

    Without one it is opened as soon as an attempt needs it, and after ``OPENED_WITHIN_S`` at the latest.

    Args:
        profile: the profile that its table gives it, without skills.
        why: the reason why it could not be opened; empty if it has not answered yet.
        open_again: opens it.

    Attributes:
        unreachable: the reason.
    """

    def __init__(self, profile: AgentProfile, why: str, open_again: Callable[[], Awaitable[Device]]) -> None:
        self._profile = profile
        self.unreachable = why
        self._open_again = open_again
        self._needed = asyncio.Event()
        self._tried = asyncio.Event()
        self._device: Device | None = None

    @property
    def profile(self) -> AgentProfile:
        return self._profile

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        if not self.unreachable:
            self._needed.set()
            await self._tried.wait()
        if self._device is not None:
            return await self._device.perform(attempt, signs)
        return AttemptResult(error=TaskError(code="device_lost", message=self.unreachable))

    async def opened(self, failed: Callable[[str], None] = lambda _: None) -> Device:
        """Return the device as soon as it can be opened; it is tried again after growing waits.

        ``failed`` receives each reason why it could not be opened.
        """
        wait_s, longest_s = AGAIN_S
        if not self.unreachable:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OPENED_WITHIN_S):
                    await self._needed.wait()
            wait_s = 0.0
        while True:  # bounded: its waits grow, and it ends with the dispatcher
            await asyncio.sleep(wait_s)
            try:
                self._device = await in_own_task(self._open_again)
            except Exception as error:  # boundary: a kind may raise anything while it opens a device; it is tried again
                log.info("device %s cannot be used: %s", self._profile.device_id, error)
                self.unreachable = self.unreachable or str(error) or type(error).__name__
                failed(self.unreachable)
            self._tried.set()
            if self._device is not None:
                return self._device
            wait_s = min(2 * wait_s or AGAIN_S[0], longest_s)


def described(description: str, why: str) -> str:
    """Return the description of a device that cannot be used, with the reason, cut."""
    reason = " ".join(why.split())
    return f"{description} (cannot be used: {reason if len(reason) <= _MAX_SHOWN else reason[: _MAX_SHOWN - 1] + '…'})".strip()
