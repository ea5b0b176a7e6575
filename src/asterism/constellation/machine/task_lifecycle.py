"""The task lifecycle: the table that moves a task's status.

The memory of this machine is the TaskStar itself. It schedules no effects: ``task_coupling``
updates the schedule, and the constellation agent starts the attempts.
"""

from __future__ import annotations

from typing import Any

from asterism.constellation.model.fan_out import ItemCounts
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.devices.model.attempt import TaskError
from asterism.engine.kernel.machine import Event, Machine, StepContext, row


class Unblocked(Event, tag="unblocked", frozen=True, kw_only=True):
    """Every dependency is satisfied."""


class Blocked(Event, tag="blocked", frozen=True, kw_only=True):
    """A dependency is not satisfied: an edit has added or changed it."""


class Started(Event, tag="started", frozen=True, kw_only=True):
    """An attempt has started, or a person has been asked the question that must be answered first.

    Attributes:
        effect_id: id of the attempt or question.
        inquiry_id: the same id for a question; empty for an attempt.
    """

    effect_id: str
    inquiry_id: str = ""


class FannedOut(Event, tag="fanned_out", frozen=True, kw_only=True):
    """The list of a task with ``for_each`` is known; the task runs until its items have settled.

    Attributes:
        total: number of items.
    """

    total: int


class Continued(Started, tag="continued", frozen=True, kw_only=True):
    """The task stays running under another effect: a question about its interrupted attempt."""


class LegStarted(Started, tag="leg_started", frozen=True, kw_only=True):
    """The attempt of the task continues under another effect, after its device has had the answer to a question."""


class Completed(Event, tag="completed", frozen=True, kw_only=True):
    """The task has a result."""

    result: Any = None


class Released(Event, tag="released", frozen=True, kw_only=True):
    """A person has approved the task; it may start with the next ready tasks."""


class Retried(Event, tag="retried", frozen=True, kw_only=True):
    """An attempt failed; the next one starts at ``not_before`` (seconds since 1970) or later."""

    error: TaskError
    not_before: float


class Failed(Event, tag="failed", frozen=True, kw_only=True):
    """The task failed, and is not retried."""

    error: TaskError


class Stopped(Event, tag="stopped", frozen=True, kw_only=True):
    """The task was cancelled, or a person did not approve it."""

    error: TaskError


class Skipped(Event, tag="skipped", frozen=True, kw_only=True):
    """The task can never start."""

    error: TaskError


def _pending(task: TaskStar, event: Unblocked, context: StepContext) -> TaskStatus:
    task.became_pending_at = context.at
    return TaskStatus.PENDING


def _waiting(task: TaskStar, event: Blocked, context: StepContext) -> TaskStatus:
    return TaskStatus.WAITING_DEPENDENCY


def _started(task: TaskStar, event: Started | Continued | LegStarted, context: StepContext) -> TaskStatus:
    task.effect_id, task.inquiry_id = event.effect_id, event.inquiry_id
    task.error = None
    task.started_at = task.started_at or context.at
    task.attempts += not (event.inquiry_id or isinstance(event, LegStarted))
    return TaskStatus.RUNNING


def _fanned_out(task: TaskStar, event: FannedOut, context: StepContext) -> TaskStatus:
    task.items = ItemCounts(total=event.total)
    task.started_at = context.at
    return TaskStatus.RUNNING


def _completed(task: TaskStar, event: Completed, context: StepContext) -> TaskStatus:
    task.result = event.result
    return _end(task, TaskStatus.COMPLETED, None, context)


def _released(task: TaskStar, event: Released, context: StepContext) -> TaskStatus:
    task.effect_id = task.inquiry_id = ""
    task.became_pending_at = context.at
    return TaskStatus.PENDING


def _retried(task: TaskStar, event: Retried, context: StepContext) -> TaskStatus:
    task.effect_id = task.inquiry_id = ""
    task.error, task.not_before = event.error, event.not_before
    task.became_pending_at = context.at
    return TaskStatus.PENDING


def _unsuccessful(task: TaskStar, event: Failed | Stopped | Skipped, context: StepContext) -> TaskStatus:
    return _end(task, _ENDS[type(event)], event.error, context)


def _end(task: TaskStar, status: TaskStatus, error: TaskError | None, context: StepContext) -> TaskStatus:
    task.effect_id = task.inquiry_id = ""
    task.error = error
    task.ended_at = context.at
    return status


_WAITING, _PENDING, _RUNNING = TaskStatus.WAITING_DEPENDENCY, TaskStatus.PENDING, TaskStatus.RUNNING
_ENDS: dict[type[Event], TaskStatus] = {
    Skipped: TaskStatus.SKIPPED,
    Failed: TaskStatus.FAILED,
    Stopped: TaskStatus.CANCELLED,
}
_UNSUCCESSFUL = {event: row(_unsuccessful, status) for event, status in _ENDS.items()}

TASK_LIFECYCLE: Machine[TaskStar] = Machine(
    "task",
    states=TaskStatus,
    initial=_WAITING,
    table={
        _WAITING: {Unblocked: row(_pending, _PENDING), **_UNSUCCESSFUL},
        _PENDING: {
            Blocked: row(_waiting, _WAITING),
            Started: row(_started, _RUNNING),
            FannedOut: row(_fanned_out, _RUNNING),
            **_UNSUCCESSFUL,
        },
        _RUNNING: {
            Continued: row(_started),
            LegStarted: row(_started),
            Completed: row(_completed, TaskStatus.COMPLETED),
            Released: row(_released, _PENDING),
            Retried: row(_retried, _PENDING),
            Failed: _UNSUCCESSFUL[Failed],
            Stopped: _UNSUCCESSFUL[Stopped],
        },
        TaskStatus.COMPLETED: {},
        TaskStatus.FAILED: {},
        TaskStatus.CANCELLED: {},
        TaskStatus.SKIPPED: {},
    },
    effects=(),
    memory=lambda: TaskStar(task_id="", status=_WAITING),
)
