"""How the task lifecycles and their constellation are coupled: a table, run to a fixed point.

A task's new status says what becomes of it on the schedule; a settled task gives its dependencies a
verdict; a verdict makes other tasks ready, or doomed. No machine calls another: they meet here.
The idea of coupling machines by a table is h11's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

import msgspec

from asterism.constellation import constellation_snapshot
from asterism.constellation.condition import Condition
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.line import DependencyType, Evaluation, TaskStarLine, evaluate
from asterism.constellation.task import TaskStar, TaskStatus
from asterism.kernel.machine import Event, StepContext
from asterism.machines.task_lifecycle import TASK_LIFECYCLE, Blocked, Unblocked


class TaskScheduleSnapshot(msgspec.Struct):
    """A schedule as data."""

    constellation: constellation_snapshot.ConstellationSnapshot
    startable: list[str]
    running: list[str]
    unsatisfiable: list[str]


class TaskSchedule:
    """A constellation and where its tasks stand, each index in the order things happened.

    Attributes:
        startable: PENDING tasks.
        running: RUNNING tasks.
        unsatisfiable: editable tasks that can no longer start, until they are skipped or edited.
    """

    snapshot_type: ClassVar[type[msgspec.Struct]] = TaskScheduleSnapshot

    def __init__(self, constellation: TaskConstellation) -> None:
        self.constellation = constellation
        self.startable: dict[str, None] = {}
        self.running: dict[str, None] = {}
        self.unsatisfiable: dict[str, None] = {}

    def to_snapshot(self) -> TaskScheduleSnapshot:
        """It as data, for a snapshot."""
        return TaskScheduleSnapshot(
            constellation_snapshot.to_snapshot(self.constellation), list(self.startable), list(self.running), list(self.unsatisfiable)
        )

    @classmethod
    def from_snapshot(cls, frozen: TaskScheduleSnapshot) -> TaskSchedule:
        """The schedule that was frozen."""
        schedule = cls(constellation_snapshot.from_snapshot(frozen.constellation))
        schedule.startable = dict.fromkeys(frozen.startable)
        schedule.running = dict.fromkeys(frozen.running)
        schedule.unsatisfiable = dict.fromkeys(frozen.unsatisfiable)
        return schedule

    def forget_removed(self) -> None:
        """Drop what edits have removed from the constellation."""
        for index in (self.startable, self.unsatisfiable):
            for task_id in [task_id for task_id in index if task_id not in self.constellation.tasks]:
                del index[task_id]


def _waits(schedule: TaskSchedule, task: TaskStar) -> None:
    schedule.startable.pop(task.task_id, None)


def _can_start(schedule: TaskSchedule, task: TaskStar) -> None:
    schedule.running.pop(task.task_id, None)
    schedule.startable[task.task_id] = None


def _runs(schedule: TaskSchedule, task: TaskStar) -> None:
    schedule.startable.pop(task.task_id, None)
    schedule.running[task.task_id] = None


def _settled(schedule: TaskSchedule, task: TaskStar) -> None:
    for index in (schedule.startable, schedule.running, schedule.unsatisfiable):
        index.pop(task.task_id, None)
    schedule.constellation.source_settled(task.task_id)


COUPLING: Mapping[TaskStatus, Callable[[TaskSchedule, TaskStar], None]] = {
    TaskStatus.WAITING_DEPENDENCY: _waits,
    TaskStatus.PENDING: _can_start,
    TaskStatus.RUNNING: _runs,
    TaskStatus.COMPLETED: _settled,
    TaskStatus.FAILED: _settled,
    TaskStatus.CANCELLED: _settled,
    TaskStatus.SKIPPED: _settled,
}
"""What a task's new status means for the schedule."""


def move_task(schedule: TaskSchedule, task: TaskStar, event: Event, context: StepContext) -> None:
    """Move one task by its table, then everything that follows from it."""
    target = TASK_LIFECYCLE.step(task.status, task, event, context)
    task.status = cast("TaskStatus", target or task.status)
    context.touched["task", task.task_id] = None
    COUPLING[task.status](schedule, task)
    settle(schedule, context)


def settle(schedule: TaskSchedule, context: StepContext) -> None:
    """Judge what wants a verdict and ready what can start, until nothing changes.

    Bounded: each dependency is judged once, and each verdict unsettles one task.
    """
    constellation = schedule.constellation
    while constellation.unevaluated or constellation.dirty:
        for line_id in tuple(constellation.unevaluated):
            constellation.set_evaluation(line_id, _verdict(constellation, constellation.lines[line_id], context))
        for task_id in tuple(constellation.dirty):
            del constellation.dirty[task_id]
            _refresh(schedule, constellation.tasks[task_id], context)


def _refresh(schedule: TaskSchedule, task: TaskStar, context: StepContext) -> None:
    if not task.editable:
        return
    ready = schedule.constellation.is_ready(task.task_id)
    if ready != (task.status is TaskStatus.PENDING):
        event: Event = Unblocked() if ready else Blocked()
        task.status = cast("TaskStatus", TASK_LIFECYCLE.step(task.status, task, event, context) or task.status)
        context.touched["task", task.task_id] = None
        COUPLING[task.status](schedule, task)
    if schedule.constellation.is_unsatisfiable(task.task_id):
        schedule.unsatisfiable[task.task_id] = None
    else:
        schedule.unsatisfiable.pop(task.task_id, None)


def _verdict(constellation: TaskConstellation, line: TaskStarLine, context: StepContext) -> Evaluation:
    """The verdict on a dependency; a condition's is recorded, so that a replay does not depend on the language's version."""
    source = constellation.tasks[line.source]
    if line.type is not DependencyType.CONDITIONAL:
        return evaluate(line, source, {})
    name = f"{line.line_id} v{constellation.version}"
    recorded = context.side_effect(name, lambda: msgspec.to_builtins(evaluate(line, source, _facts(constellation, line))))
    return msgspec.convert(recorded, Evaluation)


def _facts(constellation: TaskConstellation, line: TaskStarLine) -> dict[str, dict[str, Any]]:
    """Status and result of the ancestors that a condition asks about."""
    asked = Condition(line.condition).task_ids
    found = [constellation.tasks[task_id] for task_id in sorted(asked) if task_id in constellation.tasks]
    return {task.task_id: {"status": str(task.status), "result": task.result} for task in found}
