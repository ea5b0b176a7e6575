"""Retry: tasks that have failed, and what was skipped because of them, are to run again."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from asterism.constellation.machine.events import Retry
from asterism.constellation.machine.guarding import approval_of_repeated
from asterism.constellation.machine.items import renew, reopen
from asterism.constellation.machine.memory import NAMED, ConstellationMemory
from asterism.constellation.machine.task_coupling import TaskSchedule, settle
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.fan_out import item_id
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.phrase import Phrase, joined, phrase
from asterism.errors import Refused

FAILED = (TaskStatus.FAILED, TaskStatus.CANCELLED)


def retry_tasks(memory: ConstellationMemory, event: Retry, context: StepContext) -> StrEnum:
    """Let failed tasks run again: those that the event names, or all.

    A task with ``for_each`` keeps the results of its items that completed.

    Raises:
        Refused: the end of the run is decided, it has no tasks, a task has not failed, or none has; nothing has changed.
    """
    schedule = memory.schedule
    if memory.code or memory.concluding:
        raise Refused(phrase("retry_in_fork" if memory.code else "retry_later"))
    if schedule is None:
        raise Refused(phrase("no_task_yet"))
    in_order = schedule.constellation.in_order()
    chosen = {task_id: _chosen(schedule.constellation, task_id) for task_id in event.tasks}
    chosen = chosen or {task.task_id: task for task in in_order if task.status in FAILED}
    if not chosen:
        raise Refused(none_failed(schedule.constellation))
    owners = dict.fromkeys(task.item_of or task.task_id for task in chosen.values() if task.item_of or (task.items and task.items.total))
    for owner in owners:
        named_items = None if owner in chosen else {task.index for task in chosen.values() if task.item_of == owner}
        reopen(schedule, schedule.constellation.tasks[owner], named_items, context, approval_of_repeated(memory.guards))
    planned = [task for task in chosen.values() if not task.item_of]
    _reset(memory, schedule, planned, context)
    _release_successors(memory, schedule, dict.fromkeys((*owners, *(task.task_id for task in planned))), context)
    settle(schedule, context)
    return context.state


def none_failed(constellation: TaskConstellation) -> Phrase:
    """Return that no task has failed, with an item that was left out."""
    left_out = next((task.task_id for task in constellation.in_order_with_items() if task.status in FAILED), "")
    return phrase("none_failed", left_out=left_out)


def failed_task(constellation: TaskConstellation, task_id: str) -> TaskStar:
    """Return a task or an item that has failed or was cancelled.

    Raises:
        Refused: there is no such task, or it has not.
    """
    task = constellation.tasks.get(task_id)
    if task is None:
        owner = constellation.tasks.get(task_id.partition("[")[0]) if task_id.endswith("]") else None
        if owner is not None:
            raise Refused(phrase("no_such_item", item=task_id, there=_items_of(constellation, owner)))
        names = [known.task_id for known in constellation.in_order()]
        raise Refused(phrase("unknown_task", task=task_id, names=names))
    if task.status not in FAILED:
        raise Refused(phrase("not_failed", task=task_id, status=task.status))
    return task


def _items_of(constellation: TaskConstellation, owner: TaskStar) -> Phrase:
    """Return the items that a task has, and those of them that can be retried."""
    ids = [item_id(owner.task_id, index) for index in range(owner.items.total if owner.items else 0)]
    if not ids:
        return phrase("no_items", task=owner.task_id)
    failed = joined([item for item in ids if constellation.tasks[item].status in FAILED], NAMED)
    return phrase("items_there", task=owner.task_id, first=ids[0], last=ids[-1], failed=failed or "none")


def _chosen(constellation: TaskConstellation, task_id: str) -> TaskStar:
    task = failed_task(constellation, task_id)
    if task.item_of and constellation.tasks[task.item_of].status is TaskStatus.COMPLETED:
        used = [it for it in constellation.successors(task.item_of) if constellation.tasks[it].started_at]
        if used:
            raise Refused(phrase("result_was_used", task=task.item_of, by=used[0], item=task_id))
    return task


def _reset(memory: ConstellationMemory, schedule: TaskSchedule, tasks: Iterable[TaskStar], context: StepContext) -> None:
    for task in tasks:
        if schedule.constellation.tasks[task.task_id].settled:  # those with items run again already
            renew(schedule, task, context, approval_of_repeated(memory.guards))
            schedule.constellation.dirty[task.task_id] = True
            for line in schedule.constellation.lines_in(task.task_id):  # its source may have been retried since
                schedule.constellation.reopen_line(line.line_id)
                context.touch("line", line.line_id)
        memory.unseen.pop(task.task_id, None)
        memory.batch.pop(task.task_id, None)


def _release_successors(memory: ConstellationMemory, schedule: TaskSchedule, task_ids: Iterable[str], context: StepContext) -> None:
    """Open the dependencies on these tasks again, and let tasks wait again that were skipped because of them."""
    constellation = schedule.constellation
    todo = list(task_ids)
    while todo:  # bounded: each task is reset once
        for line_id in constellation.awaiting(todo.pop()):
            target = constellation.tasks[constellation.lines[line_id].target]
            if target.status is not TaskStatus.SKIPPED and not target.editable:
                continue  # it has started, and goes by what was found then
            constellation.reopen_line(line_id)
            constellation.lines[line_id].excuses_nothing = False  # it is there before the next failure
            context.touch("line", line_id)
            if target.status is TaskStatus.SKIPPED:
                _reset(memory, schedule, [target], context)
                todo.append(target.task_id)
