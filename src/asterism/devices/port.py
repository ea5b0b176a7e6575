"""Ports of devices, which carry out attempts, and of the dispatcher with the queues before them."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, Self

import msgspec

from asterism.devices.model.attempt import Attempt, DeviceQuestion, DeviceReply, ErrorCode, TaskError
from asterism.engine.kernel.profile import AgentProfile

__all__ = [
    "Attempt",
    "AttemptError",
    "AttemptResult",
    "AttemptSigns",
    "Continuing",
    "Device",
    "DeviceQuestion",
    "DeviceReply",
    "Dispatching",
    "HeldPlace",
    "Notices",
    "RemoteDevice",
    "Signs",
    "Stopping",
    "Unreachable",
    "finished",
]

MAX_NAMED = 20
"""Skills that an error names."""


def finished() -> asyncio.Future[None]:
    """Return a future that has finished, for a sign that nobody has to record."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_result(None)
    return future


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an attempt: a JSON result or an error; or the end of a leg of it: a question."""

    result: Any = None
    error: TaskError | None = None
    question: DeviceQuestion | None = None

    @classmethod
    def failed(cls, code: ErrorCode, message: str) -> Self:
        """Return the end of an attempt with an error."""
        return cls(error=TaskError(code=code, message=message))


class AttemptError(Exception):
    """Ends an attempt with this code and message."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message

    @property
    def end(self) -> AttemptResult:
        """Return the end of the attempt."""
        return AttemptResult.failed(self.code, self.message)


class Unreachable(AttemptError):
    """The other side of a remote device cannot be reached; the text says why, in one line."""

    def __init__(self, why: str) -> None:
        super().__init__("device_lost", why)


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

    def attached(self, handle: str) -> Awaitable[None]:
        """Report the handle by which the device finds the attempt again; implies ``begun``.

        The report is made at once. Once the awaitable returns, the handle is in the journal: rely
        on it only then. If the run has given up the attempt, the awaitable does not return, or
        raises ``CancelledError``; so a ``perform`` that is being cancelled makes the report and does
        not await it. Only the first call of a ``perform`` counts.

        Args:
            handle: a text of 4 KiB at most.
        """
        ...


class Signs(AttemptSigns, Protocol):
    """What a device reports about an attempt, and the place that the attempt has."""

    @property
    def place(self) -> HeldPlace | None:
        """Return the place; None on a device whose places belong to this process."""
        ...


class Notices(Protocol):
    """Takes what a device reports about itself."""

    def lost(self, why: str) -> None:
        """Report that the device cannot be reached; repeated reports count once."""
        ...

    def found(self, profile: AgentProfile | None = None) -> None:
        """Report that the device can be reached, with its profile if it may have changed."""
        ...


class Device(ABC):
    """Carries out attempts.

    After a crash, an attempt may arrive again under the same key while the first one still runs
    where the device started it.

    Args:
        profile: the device's description for the planner.

    Attributes:
        profile: as it is now.
        unreachable: why the device cannot be reached since it was opened; empty if it can.
        secret_names: names of the secrets in its own settings; on a remote device they are masked
            in what it reports.
        environment: environment variables of its processes.
    """

    unreachable: str = ""
    secret_names: Sequence[str] = ()
    environment: Mapping[str, str] = os.environ

    def __init__(self, profile: AgentProfile) -> None:
        self.profile = profile

    @abstractmethod
    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        """Carry out one attempt; the caller limits its time.

        It never raises for what a skill does, and returns an ``AttemptResult`` with an error. When it
        is cancelled, it kills this attempt only, and then lets the cancellation pass. It calls
        ``begun`` before the work starts, and may report progress until it returns. It checks the
        arguments, whose references are resolved, and the result against what its skill declares
        (``bad_arguments``, ``bad_result``).
        """

    async def reach(self) -> str:
        """Connect, unless a connection is there. Return why the device cannot be reached, empty if it can; never raises."""
        return self.unreachable

    async def system(self) -> str:
        """Return the system on which it performs attempts, in words; empty if that is no news. Raises Unreachable."""
        return ""

    def lacks(self, skill: str) -> AttemptError:
        """Return the error of an attempt at a skill that the device does not have."""
        names = [each.name for each in self.profile.skills]
        have = f"{', '.join(names[:MAX_NAMED])}{', …' if len(names) > MAX_NAMED else ''}" or "none"
        return AttemptError("no_device", f"device {self.profile.device_id} has no skill {skill!r}; it has {have}")


class RemoteDevice(Device):
    """A device whose attempts live outside this process.

    Cancelling ``perform`` of such a device lets the attempt go: what depends on this process ends,
    and what runs elsewhere continues, for the next owner of the run. Ending it is ``stop``. A
    cancelled ``perform`` ends at once, with one exception: a request that is under way may have 5 s
    to return the handle, which ``perform`` then reports with ``attached``.

    If the connection is lost, ``perform`` returns the error ``device_lost``. The dispatcher performs
    the attempt again with ``again``, for ``grace_s`` at most, if the profile has ``reattach``.
    """

    @abstractmethod
    async def stop(self, attempt: Attempt) -> str:
        """End the attempt for good, wherever it runs; idempotent, and bounded in time (15 s).

        Return what may still run, and where, in words; empty if nothing does. ``attempt`` has the
        key, handle, leg and state that are known, and no arguments. Without a handle the device
        looks for the attempt as for ``again``, and makes sure, where it can, that a late start
        finds it stopped.
        """

    @abstractmethod
    async def watch(self, notices: Notices) -> None:
        """Connect, report that the device is found, and stay connected, until cancelled.

        Raise Unreachable when the other side cannot be reached, or no longer: the device counts as
        lost until it reports that it is found, and is watched again after growing waits.
        """

    async def has_gone_on(self, attempt: Attempt) -> bool:  # noqa: ARG002 - for devices that ask with ``may_go_on``
        """Return True if an attempt does not wait for the answer to the question of its state any more; False also if that is unknown.

        Only a device whose attempts may go on while their question is open needs it (``DeviceQuestion.may_go_on``).
        """
        return False


class Dispatching(Protocol):
    """Carries attempts to devices, one queue per device."""

    async def perform(self, attempt: Attempt, signs: AttemptSigns) -> AttemptResult:
        """Queue and carry out one attempt; raises only CancelledError."""
        ...


class Continuing(Protocol):
    """Asks devices whether attempts go on while their question is open."""

    async def has_gone_on(self, attempt: Attempt) -> bool:
        """Return as ``RemoteDevice.has_gone_on``."""
        ...


class Stopping(Protocol):
    """Ends attempts on remote devices."""

    async def stop(self, attempt: Attempt, until: float) -> str:
        """End an attempt on its remote device; return what may still run, in words.

        At least one try is made, and none after ``until``, in seconds since the epoch.
        """
        ...
