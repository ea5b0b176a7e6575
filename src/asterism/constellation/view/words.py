"""Tasks, edits, answers of the planner and ends of attempts in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from asterism.constellation.machine.events import AskPlanner, AttemptEnded, Planned, PlanningFailed, RaiseLimits, Retry, WeavingMode
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
from asterism.constellation.model.task import Role, TaskStar, TaskStatus
from asterism.engine.control.children import ChildEnded
from asterism.engine.kernel.machine import Effect
from asterism.engine.kernel.phrase import Phrase
from asterism.views.words import count, duration, plain, preview


def count_tasks(roles: Iterable[Role]) -> str:
    """Return the number of tasks, and that of handlers apart: ``4 tasks and 1 handler``."""
    listed = list(roles)
    handlers = len(listed) - listed.count("task")
    return count(len(listed) - handlers, "task") + (f" and {count(handlers, 'handler')}" if handlers else "")


ROLE_WORDS: Mapping[Role, str] = {"task": "", "on_failure": "on failure", "finally": "finally"}
"""The mark of a handler in a list of tasks; none for a task."""


def place_of(task: TaskStar) -> str:
    """Return the device of a task, or the number of tasks of its nested constellation."""
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
