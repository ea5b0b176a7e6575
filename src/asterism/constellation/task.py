"""TaskStar: one task of a constellation, and the words for its states, its errors and its retries."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec


class TaskStatus(StrEnum):
    """States of a task. Only PENDING and WAITING_DEPENDENCY may be edited; the rest are read-only."""

    PENDING = "PENDING"
    WAITING_DEPENDENCY = "WAITING_DEPENDENCY"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"


EDITABLE = frozenset({TaskStatus.PENDING, TaskStatus.WAITING_DEPENDENCY})
SETTLED = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.SKIPPED})

ErrorCode = Literal[
    "raised",  # the skill raised, or its command exited with a failure
    "crashed",  # its process died
    "timeout",  # one attempt took longer than timeout_s
    "deadline",  # the task's deadline passed, queueing included
    "bad_result",  # the result was not JSON, or too large
    "bad_arguments",  # the skill does not take these arguments
    "device_lost",  # the device went away while it worked
    "interrupted",  # our own process died while it worked; whether it finished is not known
    "cancelled",  # stopped on request
    "rejected",  # a person said no
    "unsatisfied",  # a dependency can never be satisfied
    "no_result",  # an input refers to something that a result does not have
    "no_device",  # no device of the fleet can do it
    "child_failed",  # the run that carried it out failed
]


class TaskError(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt, or a task, did not complete."""

    code: ErrorCode
    message: str


RETRIED_ALWAYS: tuple[ErrorCode, ...] = ("raised", "bad_result")
RETRIED_IF_IDEMPOTENT: tuple[ErrorCode, ...] = (*RETRIED_ALWAYS, "crashed", "timeout")

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """When a failed attempt is tried again.

    Attributes:
        max_attempts: attempts in all, the first one included.
        backoff_s: wait before the second attempt; it doubles from there.
        max_backoff_s: no wait is longer than this.
        on: error codes that are retried; None for the defaults. Those never repeat what may have happened:
            a skill that is not idempotent is tried again only where it said itself that it failed.
    """

    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    backoff_s: Seconds = 1.0
    max_backoff_s: Seconds = 60.0
    on: tuple[ErrorCode, ...] | None = None

    def retries(self, code: ErrorCode, *, repeatable: bool) -> bool:
        """Whether an attempt that ended with this code is tried again; ``repeatable``: its skill is idempotent."""
        if self.on is not None:
            return code in self.on
        return code in (RETRIED_ALWAYS if not repeatable else RETRIED_IF_IDEMPOTENT)


class TaskStar(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One task: what the plan says of it, and how far it has come.

    Attributes:
        task_id: unique in its constellation, never reused.
        name: short name; also names the skill where ``skill`` is empty.
        description: what is to be done, in words.
        device: id of the device that does it.
        skill: name of the device's skill; empty until it is resolved, and for agents.
        tips: advice for whoever carries it out.
        inputs: arguments; a string may be a reference ``${task_id.field}``.
        priority: higher starts first on a busy device.
        timeout_s: bound on one attempt; None for none.
        deadline_s: bound on the whole task, queueing included, in seconds from the start of the run; None for none.
        retry: when a failed attempt is tried again.
        requires_approval: a person must say yes before it runs.
        constellation: a plan, as ``parse_plan`` reads it, that carries the task out in place of a device; None for none.
            Its tasks may refer to this one's inputs as ``${inputs.name}``.
        status: where it is.
        resolved_skill: the skill it will be performed with, once looked up; empty for agents.
        result: JSON value it returned.
        error: why it failed, was cancelled or was skipped.
        attempts: how many attempts were started.
        effect_id: id of the one effect that is outstanding for it (an attempt, or a question); empty when none.
        inquiry_id: id of the question a person must answer before it goes on; empty when none.
        approved: JSON text of exactly what a person has approved; empty when nothing.
        not_before: earliest start, seconds since the epoch (a backoff).
        became_pending_at, started_at, ended_at: seconds since the epoch; 0 when it has not happened.
    """

    task_id: str
    name: str = ""
    description: str = ""
    device: str = ""
    skill: str = ""
    tips: tuple[str, ...] = ()
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    priority: int = 0
    timeout_s: float | None = None
    deadline_s: float | None = None
    retry: RetryPolicy = RetryPolicy()
    requires_approval: bool = False
    constellation: dict[str, Any] | None = None

    status: TaskStatus = TaskStatus.PENDING
    resolved_skill: str = ""
    result: Any = None
    error: TaskError | None = None
    attempts: int = 0
    effect_id: str = msgspec.field(default="", name="effect")
    inquiry_id: str = msgspec.field(default="", name="inquiry")
    approved: str = ""
    not_before: float = 0.0
    became_pending_at: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0

    @property
    def editable(self) -> bool:
        """True while an edit may touch it."""
        return self.status in EDITABLE

    @property
    def settled(self) -> bool:
        """True once it will not change any more."""
        return self.status in SETTLED
