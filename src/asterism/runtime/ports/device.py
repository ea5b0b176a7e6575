"""Ports of devices, which carry out attempts, and of the dispatcher with the queues before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from asterism.constellation.profile import AgentProfile
from asterism.constellation.task import TaskError


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one task, as a device receives it.

    Attributes:
        key: idempotency key, the id of the effect; the same after a crash.
        run_id, task_id: the run and the task that it belongs to.
        device_id: the device that carries it out.
        skill: the skill to perform; empty for a device that accepts natural language.
        description: the task in words.
        arguments: JSON object, with references resolved.
        results: JSON results of the direct predecessors, by task id.
        number: number of the attempt, from 1.
        priority: higher goes first on a busy device.
        timeout_s: time limit from the moment the device starts it; None for no limit.
        deadline: seconds since the epoch at which it must end; None for no deadline.
        folder: base of relative paths in the arguments: where the run was started; empty for the
            device's own.
    """

    key: str
    run_id: str
    task_id: str
    device_id: str
    skill: str
    description: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    results: dict[str, Any] = msgspec.field(default_factory=dict)
    number: int = 1
    priority: int = 0
    timeout_s: float | None = None
    deadline: float | None = None
    folder: str = ""


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
    pass. It may report progress until it returns.
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
