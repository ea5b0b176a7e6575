"""TaskStar: one task of a constellation, with its states, errors and retries."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from asterism.constellation.model.fan_out import ForEach, ItemCounts
from asterism.constellation.model.wait import Wait
from asterism.devices.model.attempt import ErrorCode, TaskError


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

RETRIED_ALWAYS: tuple[ErrorCode, ...] = ("raised", "bad_result")
RETRIED_IF_IDEMPOTENT: tuple[ErrorCode, ...] = (*RETRIED_ALWAYS, "crashed", "timeout")

Role = Literal["task", "on_failure", "finally"]
"""What a task is for: the work itself, or a handler of the end of the run."""
Join = Literal["all", "any"]
"""Which dependencies a task waits for."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e9)]


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


class TaskFields(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The fields of a task that a plan or an edit writes, as the schemas for editors and planners describe them."""

    task_id: Annotated[str, msgspec.Meta(description="Unique id; letters, digits, _ and -.")]
    name: Annotated[str, msgspec.Meta(description="Short name; also names the skill, where skill is not given.")] = ""
    description: Annotated[str, msgspec.Meta(description="What is to be done, in words.")] = ""
    device: Annotated[str, msgspec.Meta(description="Id of the device that does it.")] = ""
    skill: Annotated[str, msgspec.Meta(description="Name of a skill of that device.")] = ""
    tips: Annotated[tuple[str, ...], msgspec.Meta(description="Notes for people about the task; the device does not receive them.")] = ()
    inputs: Annotated[
        dict[str, Any],
        msgspec.Meta(description="Arguments. A text may hold ${task_id.field}: that field of the result of a task upstream."),
    ] = msgspec.field(default_factory=dict)
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31, description="Higher goes first on a busy device.")] = 0
    timeout_s: Annotated[Positive | None, msgspec.Meta(description="Bound on one attempt, in seconds.")] = None
    deadline_s: Annotated[Positive | None, msgspec.Meta(description="Bound on the whole task, in seconds from the start of the run.")] = (
        None
    )
    retry: Annotated[RetryPolicy, msgspec.Meta(description="When a failed attempt is tried again.")] = RetryPolicy()
    requires_approval: Annotated[bool, msgspec.Meta(description="A person must say yes before it runs.")] = False
    constellation: Annotated[
        dict[str, Any] | None,
        msgspec.Meta(description="A plan of tasks and dependencies that carries it out, in place of device and skill."),
    ] = None
    when: Annotated[
        str, msgspec.Meta(description="CEL over its own inputs by name, such as: size(parts) > 2. If it is not met, the task is skipped.")
    ] = ""
    join: Annotated[Join, msgspec.Meta(description="all: it starts when every dependency is satisfied. any: it starts with the first.")] = (
        "all"
    )
    role: Annotated[
        Role,
        msgspec.Meta(description="task; on_failure: it runs if the run has failed, finally: in any case, each when the rest is settled."),
    ] = "task"
    for_each: Annotated[
        ForEach | None,
        msgspec.Meta(description="A list, or a reference to one: the task is performed for each item, which its inputs name ${item}."),
    ] = None
    env: Annotated[dict[str, str], msgspec.Meta(description="Environment variables of its process, by name; texts.")] = msgspec.field(
        default_factory=dict
    )
    folder: Annotated[str, msgspec.Meta(description="Its working folder, relative to that of its device.")] = ""
    wait: Annotated[
        Wait | None, msgspec.Meta(description="What it waits for, in place of device and skill; timeout_s bounds the wait.")
    ] = None

    @property
    def referring_values(self) -> Any:
        """Return the values that may have references: its inputs, the items of a fan-out, and the time of a wait."""
        items = [self.for_each.items] if self.for_each else []
        until = [self.wait.until] if self.wait else []
        return [self.inputs, *items, *until] if items or until else self.inputs


class TaskSpec(TaskFields, frozen=True, forbid_unknown_fields=True):  # type: ignore[misc] # msgspec allows it
    """A task as in a plan or an edit."""


class TaskStar(TaskFields, kw_only=True, gc=False):
    """One task: the fields of its plan, which edits change, and its progress.

    Attributes:
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
