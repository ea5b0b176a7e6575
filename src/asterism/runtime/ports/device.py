"""Ports of devices, which carry out attempts, and of the dispatcher with the queues before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from asterism.constellation.profile import AgentProfile
from asterism.constellation.task import TaskError
from asterism.machines.constellation_agent.requests import Attempt

__all__ = ["Attempt", "AttemptProgress", "AttemptResult", "Device", "Dispatching", "ProgressSink"]


class AttemptProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an attempt: a fraction of its work, a message, or both."""

    key: str
    fraction: float | None = None
    message: str = ""


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an attempt: a JSON result, or an error."""

    result: Any = None
    error: TaskError | None = None


ProgressSink = Callable[[AttemptProgress], None]


class Device(Protocol):
    """Carries out attempts.

    ``perform`` never raises for what a skill does; it returns an ``AttemptResult`` with an error.
    When its coroutine is cancelled, it kills this attempt only, and then lets the cancellation
    pass. It may report progress until it returns. It checks the arguments, whose references are
    resolved, and the result against what its skill declares (``bad_arguments``, ``bad_result``).

    After a crash, an attempt may arrive again under the same key while the first one still runs
    where the device started it.
    """

    @property
    def profile(self) -> AgentProfile:
        """Return the device's description for the planner."""
        ...

    async def perform(self, attempt: Attempt, progress: ProgressSink) -> AttemptResult:
        """Carry out one attempt; the caller limits its time."""
        ...


class Dispatching(Protocol):
    """Carries attempts to devices, one queue per device."""

    async def perform(self, attempt: Attempt, progress: ProgressSink) -> AttemptResult:
        """Queue and carry out one attempt; raises only CancelledError."""
        ...
