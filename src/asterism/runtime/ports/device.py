"""A device: who carries out attempts, and the queue before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from asterism.constellation.profile import AgentProfile
from asterism.constellation.task import TaskError


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one task, as a device gets it.

    Attributes:
        key: idempotency key, the id of the effect; the same after a crash.
        run_id, task_id: whose it is.
        device_id: the device it is meant for.
        skill: the skill to perform; empty for a device that takes natural language.
        description: the task in words.
        arguments: JSON object, already resolved.
        results: JSON results of the direct predecessors, by task id.
        number: which attempt this is, from 1.
        priority: higher goes first on a busy device.
        timeout_s: bound on this attempt, from the moment the device takes it; None for none.
        deadline: seconds since the epoch after which it must not go on; None for none.
        folder: where the run was started, for what is relative in the arguments; empty for wherever the device is.
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
    """A sign of life of an attempt: how far it is, what it says. Either may be missing."""

    key: str
    fraction: float | None = None
    message: str = ""


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended: a JSON result, or an error."""

    result: Any = None
    error: TaskError | None = None


ProgressSink = Callable[[AttemptProgress], None]


class Device(Protocol):
    """Something that carries out attempts.

    ``perform`` never raises for what a skill does: that is an ``AttemptResult`` with an error. When its
    coroutine is cancelled it kills the attempt (this one and nothing else) before it lets the
    cancellation through. Progress may be reported until it returns, and not after.
    """

    @property
    def profile(self) -> AgentProfile:
        """What the planner may know about it."""
        ...

    async def perform(self, attempt: Attempt, progress: ProgressSink) -> AttemptResult:
        """Carry out one attempt; bounded by whoever calls."""
        ...


class Dispatching(Protocol):
    """Carries attempts to devices, one queue per device."""

    async def perform(self, attempt: Attempt, progress: ProgressSink) -> AttemptResult:
        """Carry out one attempt, queueing included; raises only CancelledError."""
        ...
