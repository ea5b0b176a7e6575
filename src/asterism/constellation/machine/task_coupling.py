"""The coupling between the tasks of a constellation: a table, applied until nothing changes.

A new task status updates the schedule. After a task ends, its dependencies are evaluated, and their
evaluations unblock other tasks or make them unsatisfiable. Tasks never call each other. Coupling
machines by a table is h11's idea.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from asterism.constellation.machine.task_lifecycle import TASK_LIFECYCLE, Blocked, Unblocked
from asterism.constellation.model.condition import Condition
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.line import DependencyType, Evaluation, TaskStarLine, evaluate
from asterism.constellation.model.task import Role, TaskStar, TaskStatus
from asterism.engine.kernel.machine import Event, StepContext


class TaskSchedule(msgspec.Struct):
    """A constellation with an index of its tasks by status, each in the order of the events.

    Attributes:
        startable: PENDING tasks.
        running: RUNNING tasks.
        unsatisfiable: editable tasks that can never start, until they are skipped or edited.
        role: role of the tasks that may start: handlers wait until it is theirs.
        params: values of the plan's parameters, for conditions.
    """

    constellation: TaskConstellation
    params: dict[str, Any]
    startable: dict[str, None] = {}
    running: dict[str, None] = {}
    unsatisfiable: dict[str, None] = {}
    role: Role = "task"

    def turn_to(self, role: Role, context: StepContext) -> None:
        """Let the tasks of another role start."""
        self.role = role
        self.constellation.dirty.update({task.task_id: True for task in self.constellation.in_order() if task.role == role})
        settle(self, context)

    def forget_removed(self) -> None:
        """Drop the tasks that edits have removed from the constellation."""
        for index in (self.startable, self.unsatisfiable):
            for task_id in [task_id for task_id in index if task_id not in self.constellation.tasks]:
                del index[task_id]


def _is_waiting(schedule: TaskSchedule, task: TaskStar) -> None:
    schedule.startable.pop(task.task_id, None)


def _is_startable(schedule: TaskSchedule, task: TaskStar) -> None:
    schedule.running.pop(task.task_id, None)
    schedule.startable[task.task_id] = None


def _is_running(schedule: TaskSchedule, task: TaskStar) -> None:
    schedule.startable.pop(task.task_id, None)
    schedule.running[task.task_id] = None


def _is_settled(schedule: TaskSchedule, task: TaskStar) -> None:
    for index in (schedule.startable, schedule.running, schedule.unsatisfiable):
        index.pop(task.task_id, None)
    schedule.constellation.source_settled(task.task_id)


COUPLING: Mapping[TaskStatus, Callable[[TaskSchedule, TaskStar], None]] = {
    TaskStatus.WAITING_DEPENDENCY: _is_waiting,
    TaskStatus.PENDING: _is_startable,
    TaskStatus.RUNNING: _is_running,
    TaskStatus.COMPLETED: _is_settled,
    TaskStatus.FAILED: _is_settled,
    TaskStatus.CANCELLED: _is_settled,
    TaskStatus.SKIPPED: _is_settled,
}
"""The update of the schedule for each new status of a task."""


def move_task(schedule: TaskSchedule, task: TaskStar, event: Event, context: StepContext) -> None:
    """Move one task by its table, then update the schedule and the tasks that depend on it."""
    target = TASK_LIFECYCLE.step(task.status, task, event, context)
    task.status = cast("TaskStatus", target or task.status)
    context.touched["task", task.task_id] = None
    COUPLING[task.status](schedule, task)
    settle(schedule, context)


def settle(schedule: TaskSchedule, context: StepContext) -> None:
    """Evaluate dependencies and unblock tasks until nothing changes.

    Bounded: each dependency is evaluated once, and each evaluation makes one task dirty.
    """
    constellation = schedule.constellation
    while constellation.unevaluated or constellation.dirty:
        for line_id in tuple(constellation.unevaluated):
            constellation.set_evaluation(line_id, _evaluation(schedule, constellation.lines[line_id], context))
        dirty, constellation.dirty = constellation.dirty, {}
        for task_id, may_have_changed in dirty.items():
            if may_have_changed:
                _refresh(schedule, constellation.tasks[task_id], context)


def _refresh(schedule: TaskSchedule, task: TaskStar, context: StepContext) -> None:
    if not task.editable or task.item_of:  # an item waits for a free place among the items, not for dependencies
        return
    ready = task.role == schedule.role and schedule.constellation.is_ready(task.task_id)
    if ready != (task.status is TaskStatus.PENDING):
        event: Event = Unblocked() if ready else Blocked()
        task.status = cast("TaskStatus", TASK_LIFECYCLE.step(task.status, task, event, context) or task.status)
        context.touched["task", task.task_id] = None
        COUPLING[task.status](schedule, task)
    if schedule.constellation.is_unsatisfiable(task.task_id):
        schedule.unsatisfiable[task.task_id] = None
    else:
        schedule.unsatisfiable.pop(task.task_id, None)


def _evaluation(schedule: TaskSchedule, line: TaskStarLine, context: StepContext) -> Evaluation:
    # The evaluation of a condition is recorded: another version of the CEL library may evaluate it otherwise
    constellation = schedule.constellation
    source = constellation.tasks[line.source]
    if line.type is not DependencyType.CONDITIONAL:
        return evaluate(line, source, {})
    name = f"{line.line_id} v{constellation.version}"
    recorded = context.side_effect(name, lambda: msgspec.to_builtins(evaluate(line, source, _facts(constellation, line), schedule.params)))
    return msgspec.convert(recorded, Evaluation)


def _facts(constellation: TaskConstellation, line: TaskStarLine) -> dict[str, dict[str, Any]]:
    """Return status and result of the ancestors that a condition names."""
    asked = Condition(line.condition).task_ids
    found = [constellation.tasks[task_id] for task_id in sorted(asked) if task_id in constellation.tasks]
    return {task.task_id: {"status": str(task.status), "result": task.result} for task in found}
