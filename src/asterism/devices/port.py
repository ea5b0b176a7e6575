"""Ports of devices, which carry out attempts, and of the dispatcher with the queues before them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol, runtime_checkable

import msgspec

from asterism.constellation.machine.device_question import DeviceQuestion, DeviceReply
from asterism.constellation.machine.requests import Attempt
from asterism.constellation.model.task import TaskError
from asterism.engine.kernel.profile import AgentProfile

__all__ = [
    "Attempt",
    "AttemptResult",
    "AttemptSigns",
    "Continuing",
    "Device",
    "DeviceQuestion",
    "DeviceReply",
    "Dispatching",
    "HeldPlace",
    "Notices",
    "Reachable",
    "RemoteDevice",
    "Signs",
    "Stopping",
    "finished",
]


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


@runtime_checkable
class RemoteDevice(Device, Protocol):
    """A device whose attempts live outside this process.

    Cancelling ``perform`` of such a device lets the attempt go: what depends on this process ends,
    and what runs elsewhere continues, for the next owner of the run. Ending it is ``stop``. A
    cancelled ``perform`` ends at once, with one exception: a request that is under way may have 5 s
    to return the handle, which ``perform`` then reports with ``attached``.

    If the connection is lost, ``perform`` returns the error ``device_lost``. The dispatcher performs
    the attempt again with ``again``, for ``grace_s`` at most, if the profile has ``reattach``.
    """

    async def stop(self, attempt: Attempt) -> str:
        """End the attempt for good, wherever it runs; idempotent, and bounded in time (15 s).

        Return what may still run, and where, in words; empty if nothing does. ``attempt`` has the
        key, handle, leg and state that are known, and no arguments. Without a handle the device
        looks for the attempt as for ``again``, and makes sure, where it can, that a late start
        finds it stopped.
        """
        ...

    async def watch(self, notices: Notices) -> None:
        """Connect, stay connected and report it, until cancelled.

        The device counts as found until it reports that it is lost. Never raises for what the other
        side does.
        """
        ...


@runtime_checkable
class Reachable(Protocol):
    """A device that can be asked whether it is there, before a run uses it."""

    async def reach(self) -> str:
        """Connect, unless a connection is there. Return why the device cannot be reached, empty if it can; never raises."""
        ...


@runtime_checkable
class Continuing(Protocol):
    """A device whose attempts may go on while their question is open (``DeviceQuestion.may_go_on``), or a dispatcher to such."""

    async def has_gone_on(self, attempt: Attempt) -> bool:
        """Return True if an attempt does not wait for the answer to the question of its state any more; False also if that is unknown."""
        ...


class Dispatching(Protocol):
    """Carries attempts to devices, one queue per device."""

    async def perform(self, attempt: Attempt, signs: AttemptSigns) -> AttemptResult:
        """Queue and carry out one attempt; raises only CancelledError."""
        ...


class Stopping(Protocol):
    """Ends attempts on remote devices."""

    async def stop(self, attempt: Attempt, until: float) -> str:
        """End an attempt on its remote device; return what may still run, in words.

        At least one try is made, and none after ``until``, in seconds since the epoch.
        """
        ...
