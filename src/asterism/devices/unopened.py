"""A device that cannot be opened: a program, a file or an extra is missing on this computer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from asterism.constellation.profile import AgentProfile
from asterism.constellation.task import TaskError
from asterism.runtime.ports.device import Attempt, AttemptResult, Device, Signs
from asterism.runtime.task_group import in_own_task

AGAIN_S = (1.0, 60.0)
"""First and longest wait before a device is opened again, in seconds."""
_MAX_SHOWN = 300

log = logging.getLogger("asterism.devices")


class UnopenedDevice:
    """A device that could not be opened. It counts as lost until it can be.

    Args:
        profile: the profile that its table gives it, without skills.
        why: the reason why it could not be opened.
        open_again: opens it.

    Attributes:
        unreachable: the reason.
    """

    def __init__(self, profile: AgentProfile, why: str, open_again: Callable[[], Awaitable[Device]]) -> None:
        self._profile = profile
        self.unreachable = why
        self._open_again = open_again

    @property
    def profile(self) -> AgentProfile:
        return self._profile

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:  # noqa: ARG002 - none is performed
        return AttemptResult(error=TaskError(code="device_lost", message=self.unreachable))

    async def opened(self) -> Device:
        """Return the device as soon as it can be opened; it is tried again after growing waits."""
        wait_s, longest_s = AGAIN_S
        while True:  # bounded: its waits grow, and it ends with the dispatcher
            await asyncio.sleep(wait_s)
            try:
                return await in_own_task(self._open_again)
            except Exception as error:  # boundary: a kind may raise anything while it opens a device; it is tried again
                log.info("device %s cannot be used: %s", self._profile.device_id, error)
            wait_s = min(2 * wait_s, longest_s)


def described(description: str, why: str) -> str:
    """Return the description of a device that cannot be used, with the reason, cut."""
    reason = " ".join(why.split())
    return f"{description} (cannot be used: {reason if len(reason) <= _MAX_SHOWN else reason[: _MAX_SHOWN - 1] + '…'})".strip()
