"""Tasks, their items, edits, answers of the planner, devices and attempts in words, for the log and the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import msgspec

from asterism.constellation.machine.events import (
    AskPlanner,
    AttemptAttached,
    AttemptBegun,
    AttemptEnded,
    AttemptQueued,
    AttemptStopped,
    Dispatch,
    Planned,
    PlanningFailed,
    RaiseLimits,
    Retry,
    WeavingMode,
)
from asterism.constellation.model.edits import (
    AddDependency,
    AddTask,
    BuildConstellation,
    Edit,
    RemoveDependency,
    RemoveTask,
    UpdateDependency,
    UpdateTask,
)
from asterism.constellation.model.fan_out import ForEach, ItemCounts, items_words
from asterism.constellation.model.task import Role, TaskStar, TaskStatus
from asterism.devices.model.attempt import DeviceFound, DeviceLost
from asterism.engine.control.children import ChildEnded
from asterism.engine.kernel.machine import Effect
from asterism.engine.kernel.phrase import Phrase
from asterism.views.delta import LogLine, Weight, brief
from asterism.views.words import count, duration, plain, preview


def count_tasks(roles: Iterable[Role]) -> str:
    """Return the number of tasks, and that of handlers apart: ``4 tasks and 1 handler``."""
    listed = list(roles)
    handlers = len(listed) - listed.count("task")
    return count(len(listed) - handlers, "task") + (f" and {count(handlers, 'handler')}" if handlers else "")


ROLE_WORDS: Mapping[Role, str] = {"task": "", "on_failure": "on failure", "finally": "finally"}
"""The mark of a handler in a list of tasks; none for a task."""


def place_of(task: TaskStar) -> str:
    """Return the device of a task, the number of tasks of its nested constellation, or what it waits for."""
    if task.wait is not None:
        if task.wait.event:
            return f"(waits for {plain(task.wait.event)})"
        return f"(waits {duration(task.wait.for_s)})" if task.wait.for_s else f"(waits until {plain(task.wait.until)})"
    if task.constellation is None:
        return plain(task.device)
    return f"({count(len(task.constellation['tasks']), 'nested task')})"


def command_words(actor: str, event: RaiseLimits | Retry) -> str:
    """Return a command for constellations in words."""
    if isinstance(event, Retry):
        return f"{', '.join(map(plain, event.tasks)) or 'failed tasks'} retried by {plain(actor)}"
    limits = [f"{event.max_tokens} tokens"] if event.max_tokens is not None else []
    limits += [f"{event.max_cost_usd:g} dollars"] if event.max_cost_usd is not None else []
    return f"planning limit raised to {' and '.join(limits)} by {plain(actor)}"


def planned_words(event: Planned | PlanningFailed, asked: Effect | None) -> str:
    """Return the answer of the planner in words."""
    editing = isinstance(asked, AskPlanner) and asked.mode is WeavingMode.EDITING
    if isinstance(event, PlanningFailed):
        return f"{'replanning' if editing else 'planning'} failed: {plain(event.reason, 2000)}"
    if editing:
        return f"planner answered {event.status} with {count(len(event.actions), 'edit')}"
    return f"planned {count(len(event.plan.tasks), 'task')}" if event.plan else f"planner answered {event.status} without a plan"


def feedback_words(feedback: Phrase) -> str:
    """Return why the last answer of the planner was refused, without the proposal."""
    return str(feedback.data["why"]) if feedback.code == "proposal_rejected" else str(feedback)


def edit_words(edit: Edit) -> tuple[str, str]:
    """Return the task that an edit is about (empty for none), and the edit in words, to follow the name of its actor."""
    task_id = words = ""
    match edit:
        case BuildConstellation(plan=plan, clear=clear):
            words = f"{'replaces the plan with' if clear else 'merges'} a plan of {count(len(plan.tasks), 'task')}"
        case AddTask(task=task):
            task_id, words = task.task_id, f"adds the task on {plain(task.device)}" if task.device else "adds the task"
        case RemoveTask(task_id=task_id):
            words = "removes the task"
        case UpdateTask(task_id=task_id, changes=changes):
            words = f"changes the task: {preview(changes)}"
        case AddDependency(dependency=line):
            words = f"adds the dependency {plain(line.line_id)}" + (f" if {plain(line.condition)}" if line.condition else "")
        case RemoveDependency(dependency_id=line_id):
            words = f"removes the dependency {plain(line_id)}"
        case UpdateDependency(dependency_id=line_id, type=kind, condition=condition):
            words = f"changes the dependency {plain(line_id)}: {plain(' '.join(filter(None, (kind, condition))))}"
    return task_id, words


def attempt_end_words(event: AttemptEnded | ChildEnded, task: TaskStar | None, at: float) -> str:
    """Return the end of an attempt in words; ``task`` is its task after it, if it is known."""
    if isinstance(event, AttemptEnded) and event.error is None and event.question is not None:
        return "its device asks a person"
    finished = event.error is None if isinstance(event, AttemptEnded) else event.outcome == "finished"
    if finished:
        return f"completed: {preview(event.result)}"
    said = plain(event.reason if isinstance(event, ChildEnded) else event.error.words if event.error else "")
    if task is not None and task.status is TaskStatus.PENDING:
        wait_s = task.not_before - at
        return f"{said}; retry{f' in {duration(wait_s)}' if wait_s > 0 else ''}"
    return f"{str(task.status).lower()}: {said}" if task is not None and task.settled else said


def device_words(event: DeviceLost | DeviceFound) -> str:
    """Return what has become of a device, in words."""
    if isinstance(event, DeviceLost):
        state = "removed" if event.removed else "lost"
        return f"device {plain(event.device)} {state}: {plain(event.reason)}"
    if event.profile is None:
        return f"device {plain(event.device)} available again"
    return f"device {plain(event.device)} available, with {count(len(event.profile.skills), 'skill')}"


def sign_words(event: AttemptBegun | AttemptQueued | AttemptAttached | AttemptStopped, effect: Effect | None) -> tuple[str, Weight]:
    """Return what an attempt has come to, in words, and the weight of its log line; ``effect`` is the attempt."""
    device = plain(effect.device_id) if isinstance(effect, Dispatch) else ""
    match event:
        case AttemptBegun():
            return f"started on {device}", "event"
        case AttemptQueued(reason=reason):
            return f"queued: {plain(reason) if reason else f'{device} performs other attempts'}", "event"
        case AttemptAttached(handle=handle):
            return f"known on {device} as {plain(handle)}", "detail"
        case AttemptStopped(error=error):
            return (plain(error), "event") if error else ("stopped on its device", "detail")


def dispatch_words(effect: Dispatch, task_name: str) -> str:
    """Return the start of an attempt, or of a leg of it, in words."""
    if effect.leg > 1:
        return f"continued on {plain(effect.device_id)} {'with' if effect.reply else 'without'} the answer"
    skill = f" {plain(effect.skill)}" if effect.skill and task_name != effect.skill else ""
    again = f", attempt {effect.number}" if effect.number > 1 else ""
    return f"{'queued' if effect.queued else 'started'}{skill} on {plain(effect.device_id)}{again}"


def item_fields(task: TaskStar) -> dict[str, Any]:
    """Return the fields of a task's row about its fan-out, or about it as an item."""
    return {
        "items": msgspec.structs.asdict(task.items) if task.items else None,
        "item": {"of": task.item_of, "index": task.index, "value": brief(task.item)} if task.item_of else None,
    }


def for_each_words(each: ForEach) -> str:
    """Return a fan-out that has not started, in words."""
    of = plain(each.items) if isinstance(each.items, str) else count(len(each.items), "item")
    parts = [f"for each of {of}"] + ([f"{each.max_concurrent} at once"] if each.max_concurrent else [])
    return ", ".join(parts + (["without failed ones"] if each.failed == "omit" else []))


def task_items_words(task: TaskStar) -> str:
    """Return the fan-out of a task in words, with its progress once it has started; empty for another task."""
    if task.items is not None:
        return items_words(task.items)
    return for_each_words(task.for_each) if task.for_each else ""


def moved_line(task: TaskStar, before: str) -> LogLine | None:
    """Return the line of a task that an entry has moved although its event is not about it.

    Args:
        task: the task.
        before: its status before the entry.

    Returns:
        The line; None if it has neither settled nor fanned out.
    """
    if task.items is not None and task.status is TaskStatus.RUNNING and before != task.status:
        return LogLine(f"performed for {count(task.items.total, 'item')}", task.task_id)
    if not task.settled:
        return None
    counted = f": {items_words(task.items)}" if _is_partial(task.items) and not task.error else ""
    why = f": {plain(task.error.words)}" if task.error else counted
    never_began = task.item_of and not task.attempts and task.status is not TaskStatus.FAILED
    return LogLine(f"{str(task.status).lower()}{why}", task.task_id, "detail" if never_began else "event")


def _is_partial(items: ItemCounts | None) -> TypeGuard[ItemCounts]:
    return items is not None and items.completed < items.total


def result_words(task: TaskStar) -> str:
    """Return the result of a completed task in short, after the counts of a fan-out that lacks some."""
    return (f"{items_words(task.items)}  " if _is_partial(task.items) else "") + preview(task.result)
