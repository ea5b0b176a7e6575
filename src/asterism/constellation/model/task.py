"""TaskStar: one task of a constellation, with its states, errors and retries."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from asterism.constellation.model.fan_out import ForEach, ItemCounts
from asterism.engine.kernel.phrase import Phrase, Text


class TaskStatus(StrEnum):
    """States of a task. Edits may change a task only in PENDING and WAITING_DEPENDENCY."""

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
    "deadline",  # the task's deadline passed, including time in a queue
    "bad_result",  # the result was not JSON, or too large
    "bad_arguments",  # the skill does not accept these arguments
    "guarded",  # a guard of the fleet refuses it
    "device_lost",  # the device was lost during the attempt, or it reports so
    "interrupted",  # our own process died during the attempt, which may have finished or not
    "cancelled",  # stopped on request
    "rejected",  # a person rejected it, or did not answer in time
    "unsatisfied",  # a dependency can never be satisfied
    "no_result",  # an input refers to a value that a result does not have
    "no_device",  # no device of the fleet can perform it
    "child_failed",  # the run that carried it out failed
    "item_failed",  # an item of its for_each failed
]


class TaskError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The error of an attempt or a task.

    Attributes:
        message: what happened, as its device, a program or a person has written it; empty for an error
            that the run itself has found.
        why: what happened, of such an error.
    """

    code: ErrorCode
    message: str = ""
    why: Phrase | None = None

    @property
    def words(self) -> str:
        """Return what happened, in words."""
        return self.message or str(self.why or "")


def task_error(code: ErrorCode, why: Text) -> TaskError:
    """Return the error with this code, of a text or a phrase."""
    return TaskError(code=code, message=why) if isinstance(why, str) else TaskError(code=code, why=why)


def text_of(error: TaskError | None) -> Text:
    """Return the text or the phrase of an error; empty without one."""
    return (error.why or error.message) if error else ""


RETRIED_ALWAYS: tuple[ErrorCode, ...] = ("raised", "bad_result")
RETRIED_IF_IDEMPOTENT: tuple[ErrorCode, ...] = (*RETRIED_ALWAYS, "crashed", "timeout")

Role = Literal["task", "on_failure", "finally"]
"""What a task is for: the work itself, or a handler of the end of the run."""
Join = Literal["all", "any"]
"""Which dependencies a task waits for."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The retry policy of a task.

    Attributes:
        max_attempts: attempts in all, including the first.
        backoff_s: wait before the second attempt, in seconds; it doubles with each attempt.
        max_backoff_s: longest wait, in seconds.
        on: error codes to retry; None for the defaults, which never repeat work that may have been
            done: a skill that is not idempotent is retried only after an error of its own.
    """

    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    backoff_s: Seconds = 1.0
    max_backoff_s: Seconds = 60.0
    on: tuple[ErrorCode, ...] | None = None

    def retries(self, code: ErrorCode, *, repeatable: bool) -> bool:
        """Return True if an attempt with this error is retried; ``repeatable``: its skill is idempotent."""
        if self.on is not None:
            return code in self.on
        return code in (RETRIED_ALWAYS if not repeatable else RETRIED_IF_IDEMPOTENT)


class TaskStar(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """One task: its plan and its progress.

    Attributes:
        task_id: id, unique in its constellation and never reused.
        name: short name; also the name of the skill if ``skill`` is empty.
        description: the task, in words.
        device: id of its device.
        skill: name of the device's skill; empty until resolved, and for agents.
        tips: notes about it, for people; no device receives them.
        inputs: arguments; a string may be a reference ``${task_id.field}``.
        priority: on a busy device, tasks of the same run with a higher number start first.
        timeout_s: time limit of one attempt; None for none.
        deadline_s: time limit of the whole task, including time in a queue, in seconds from the
            start of the run; None for none.
        retry: its retry policy.
        requires_approval: True if a person must approve it before it runs.
        when: CEL over its own inputs by name, evaluated once when it could start; if it is not met,
            the task is skipped. Empty for none.
        role: ``task``; ``on_failure`` for a task that runs if the run has failed, and ``finally`` for
            one that runs in any case, when the rest is settled.
        join: ``all`` to start when every dependency is satisfied, ``any`` to start with the first.
        constellation: nested plan, as ``parse_plan`` reads it, that carries the task out instead of
            a device; None for none. Its tasks may refer to this task's inputs as
            ``${inputs.name}``.
        for_each: the list for whose items it is performed; None for a task that is performed once. It is
            RUNNING, without an effect, until its items have settled. All other fields are those of each
            item: approval, ``when``, retries and limits.
        env: environment variables of its process, over those of its device.
        folder: its working folder, relative to that of its device; empty for the same.
        status: its state.
        resolved_skill: the resolved skill; empty for agents.
        result: JSON value that it returned.
        error: reason why it failed, was cancelled or was skipped.
        attempts: number of started attempts.
        effect_id: id of its outstanding effect (an attempt, or a question); empty if there is none.
        inquiry_id: id of the question that a person must answer first; empty if there is none.
        approved: digest of exactly the approved request; empty without an approval. ``interrupted`` if an
            attempt was interrupted, and ``void`` if an edit has affected the task since, or a fork needs
            another approval: a person must approve the next one.
        not_before: earliest start after a backoff, in seconds since the epoch.
        became_pending_at, started_at, ended_at: seconds since the epoch; 0 before.
        items: progress of its items; None until a task with ``for_each`` has its list.
        item_of, index, item: of an item, the id of its task, its number and its value.
        is_foreign: True if something of it came over the network or from a model.
        concerned_by: the guards of a plan that stood when it was written; those that are set on other
            tasks later do not concern it until it is changed.
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
    when: str = ""
    join: Join = "all"
    role: Role = "task"
    for_each: ForEach | None = None
    env: dict[str, str] = msgspec.field(default_factory=dict)
    folder: str = ""

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
    items: ItemCounts | None = None
    item_of: str = ""
    index: int = 0
    item: Any = None
    is_foreign: bool = False
    concerned_by: tuple[str, ...] = ()

    @property
    def editable(self) -> bool:
        """Return True while edits may change it."""
        return self.status in EDITABLE

    @property
    def settled(self) -> bool:
        """Return True once its status is final."""
        return self.status in SETTLED
