"""Ports of devices, which carry out attempts, and of the dispatcher with the queues before them."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from asterism.constellation.profile import AgentProfile
from asterism.constellation.task import TaskError
from asterism.machines.constellation_agent.requests import Attempt

__all__ = ["Attempt", "AttemptResult", "AttemptSigns", "Device", "Dispatching", "HeldPlace", "Signs"]


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an attempt: a JSON result, or an error."""

    result: Any = None
    error: TaskError | None = None


class HeldPlace(Protocol):
    """A place of a device, held for one attempt by the process that dispatched it.

    A device that performs attempts in other processes hands the place on, so that it stays occupied
    until they have ended.
    """

    def hand_to(self, group: int, born: str) -> int:
        """Record the process group of the attempt, by its leader; return a descriptor to send to it."""
        ...

    def returned(self) -> None:
        """Note that the attempt left nothing running in its process group, which goes on."""
        ...


class AttemptSigns(Protocol):
    """Takes what is reported about one attempt before its end."""

    def progress(self, fraction: float | None = None, message: str = "") -> None:
        """Report a fraction of the work, a message, or both.

        The dispatcher passes on the first report at once, then at most one per 0.25 s, and 500 in
        all. It merges the reports in between.
        """
        ...

    def queued(self, reason: str = "") -> None:
        """Report that the attempt has to wait before it can begin: for others, or for the reason given."""
        ...

    async def begun(self) -> None:
        """Report that the attempt begins: once this returns, its work may start.

        An attempt that must not be repeated waits here until the journal says that it has begun.
        Only the first call counts.
        """
        ...


class Signs(AttemptSigns, Protocol):
    """What a device reports about an attempt, and the place that the attempt has."""

    @property
    def place(self) -> HeldPlace | None:
        """Return the place; None on a device whose places belong to this process."""
        ...


class Device(Protocol):
    """Carries out attempts.

    ``perform`` never raises for what a skill does; it returns an ``AttemptResult`` with an error.
    When its coroutine is cancelled, it kills this attempt only, and then lets the cancellation
    pass. It calls ``begun`` before the work starts, and may report progress until it returns. It
    checks the arguments, whose references are resolved, and the result against what its skill
    declares (``bad_arguments``, ``bad_result``).

    After a crash, an attempt may arrive again under the same key while the first one still runs
    where the device started it.
    """

    @property
    def profile(self) -> AgentProfile:
        """Return the device's description for the planner."""
        ...

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        """Carry out one attempt; the caller limits its time."""
        ...


class Dispatching(Protocol):
    """Carries attempts to devices, one queue per device."""

    async def perform(self, attempt: Attempt, signs: AttemptSigns) -> AttemptResult:
        """Queue and carry out one attempt; raises only CancelledError."""
        ...
