"""Fan-out: the items of a task with ``for_each``, from the list to the result of the task. Each move costs O(1) per item."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import msgspec

from asterism.constellation.machine.guarding import GUARDED, INTERRUPTED, VOID
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.machine.stopping import cancel_attempt
from asterism.constellation.machine.task_coupling import TaskSchedule, move_task
from asterism.constellation.machine.task_lifecycle import Completed, Failed, FannedOut, Released, Skipped, Unblocked
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.fan_out import MAX_ITEMS, MAX_ITEMS_OF_RUN, ItemCounts, item_id
from asterism.constellation.model.resolution import items_of, names_errors
from asterism.constellation.model.specs import unstarted
from asterism.constellation.model.task import SETTLED, TaskStar, TaskStatus
from asterism.devices.model.attempt import TaskError, text_of
from asterism.devices.model.references import MissingReference
from asterism.engine.kernel.machine import Event, StepContext
from asterism.engine.kernel.phrase import Phrase, phrase

_FAILED = (TaskStatus.FAILED, TaskStatus.CANCELLED)
_COUNTED = {status: status.lower() for status in SETTLED}
"""Field of ``ItemCounts`` for each status in which an item has ended."""
STOPS_QUEUED = 7
"""Rules from which on a failure also stops the items that wait for a place of their device."""
NAMED_ITEMS = 3
"""Number of failed items that the error of their task names."""


def fan_out(
    memory: ConstellationMemory, schedule: TaskSchedule, task: TaskStar, scopes: dict[str, Any], context: StepContext
) -> Event | None:
    """Insert a task for each item of its list, and release the first.

    Return the event that settles the task at once: there is no list, it is empty, or too long.
    """
    constellation = schedule.constellation
    try:
        items = items_of(task, constellation, memory.inputs, scopes=scopes)
    except MissingReference as missing:
        return Skipped(error=TaskError(code="no_result", why=missing.why))
    if names_errors(task, constellation):
        items = context.side_effect(f"items of {task.task_id}", lambda: items)
    if why := _why_refused(task, items, constellation.item_count):
        return Failed(error=TaskError(code="bad_arguments", why=why))
    pattern = unstarted(task)
    move_task(schedule, task, FannedOut(total=len(items)), context)
    for index, item in enumerate(items):
        one = msgspec.structs.replace(
            pattern,
            task_id=item_id(task.task_id, index),
            item_of=task.task_id,
            index=index,
            item=item,
            for_each=None,
        )
        constellation.insert_task(one)
        context.touched["task", one.task_id] = None
    _release(schedule, task, _counts(task), context)
    return None if items else Completed(result=[])


def _why_refused(task: TaskStar, items: Any, others: int) -> Phrase | None:
    if not isinstance(items, list):
        return phrase("items_no_list", type=type(items).__name__, items=str(task.for_each.items) if task.for_each else "")
    if len(items) > MAX_ITEMS:
        return phrase("items_too_many", count=len(items), most=MAX_ITEMS)
    if others + len(items) > MAX_ITEMS_OF_RUN:
        return phrase("items_too_many_in_run", count=len(items), others=others, most=MAX_ITEMS_OF_RUN)
    return None


def stops_after_failure(task: TaskStar, constellation: TaskConstellation) -> bool:
    """Return True for an item that may not begin after another one has failed."""
    for_each = constellation.tasks[task.item_of].for_each if task.item_of else None
    return for_each is not None and for_each.failed == "stop"


def _counts(task: TaskStar) -> ItemCounts:
    if task.items is None:
        raise RuntimeError(f"{task.task_id} has no items")
    return task.items


def _release(schedule: TaskSchedule, task: TaskStar, counts: ItemCounts, context: StepContext) -> None:
    """Let the next items start, as many as may be under way; an item holds its place until it is settled."""
    limit = (task.for_each.max_concurrent if task.for_each else None) or counts.total
    while counts.released < counts.total and counts.under_way < limit:
        item = schedule.constellation.tasks[item_id(task.task_id, counts.released)]
        counts.released += 1
        if item.status is TaskStatus.WAITING_DEPENDENCY:  # else its deadline has passed, or a retry has left it as it was
            counts.under_way += 1
            move_task(schedule, item, Unblocked(), context)


def count_end(memory: ConstellationMemory, schedule: TaskSchedule, item: TaskStar, context: StepContext) -> Event | None:
    """Count a settled item; release the next ones, or stop after a failure. Return the event that settles the task, if it was the last."""
    task = schedule.constellation.tasks[item.item_of]
    counts = count(schedule, item, context)
    stops = stops_after_failure(item, schedule.constellation)
    if stops and item.status in _FAILED and not counts.stopped:
        _skip_unbegun(memory, schedule, item, context)
    else:
        _release(schedule, task, counts, context)
    if counts.settled < counts.total:
        return None
    return (
        Failed(error=_error(schedule, task, counts))
        if stops and counts.unsuccessful
        else Completed(result=_results(schedule, task, counts))
    )


def count(schedule: TaskSchedule, item: TaskStar, context: StepContext) -> ItemCounts:
    """Count a settled item, and return the counts of its task."""
    counts = _counts(schedule.constellation.tasks[item.item_of])
    context.touched["task", item.item_of] = None
    counts.under_way -= item.became_pending_at > 0
    setattr(counts, _COUNTED[item.status], getattr(counts, _COUNTED[item.status]) + 1)
    return counts


def _skip_unbegun(memory: ConstellationMemory, schedule: TaskSchedule, failed: TaskStar, context: StepContext) -> None:
    """Skip the items that have not begun, including those that wait for an approval, or in the queue of their device."""
    task = schedule.constellation.tasks[failed.item_of]
    counts = _counts(task)
    counts.released, counts.stopped = counts.total, True
    error = TaskError(code="unsatisfied", why=phrase("task_is", task=failed.task_id, status=failed.status))
    for index in range(counts.total):
        item = schedule.constellation.tasks[item_id(task.task_id, index)]
        waits = context.rules >= STOPS_QUEUED and item.attempts == 1 and memory.never_began(item.effect_id)
        if item.settled or (item.attempts and not waits):
            continue
        if item.effect_id:
            cancel_attempt(memory, item.effect_id, context, error.why or "")
            move_task(schedule, item, Released(), context)
        move_task(schedule, item, Skipped(error=error), context)
        count(schedule, item, context)


def reopen(schedule: TaskSchedule, task: TaskStar, named: Container[int] | None, context: StepContext, unapproved: str) -> None:
    """Let settled items of a task run again: those with these indexes, or all that have not completed.

    Items that were skipped because another one had failed run again once no failed item is left.
    """
    counts = _counts(task)
    items = [schedule.constellation.tasks[item_id(task.task_id, index)] for index in range(counts.total)]
    failed = {item.index for item in items if item.status in _FAILED}
    chosen = failed if named is None else {item.index for item in items if item.settled and item.index in named}
    for item in tuple(items):
        if item.index in chosen or (item.status is TaskStatus.SKIPPED and failed <= chosen):
            items[item.index] = renew(schedule, item, context, unapproved)
            counts.released = min(counts.released, item.index)
    if task.settled:
        task = renew(schedule, task, context, unapproved)
        move_task(schedule, task, Unblocked(), context)
        move_task(schedule, task, FannedOut(total=counts.total), context)
        task.items, counts.under_way = counts, 0
    counts.stopped = False
    for status, field in _COUNTED.items():
        setattr(counts, field, sum(item.status is status for item in items))
    context.touched["task", task.task_id] = None
    _release(schedule, task, counts, context)


def renew(schedule: TaskSchedule, task: TaskStar, context: StepContext, unapproved: str) -> TaskStar:
    """Put a new task in the place of a settled one, which never leaves its state, and return it; see ``approval_of_repeated``."""
    new = unstarted(task)
    if context.rules >= GUARDED and new.approved not in (INTERRUPTED, VOID):
        new.approved = unapproved  # a person has asked for the retry, and an approval covers one attempt and its own retries
    schedule.constellation.tasks[task.task_id] = new
    context.touched["task", task.task_id] = None
    return new


def _error(schedule: TaskSchedule, task: TaskStar, counts: ItemCounts) -> TaskError:
    items = [schedule.constellation.tasks[item_id(task.task_id, index)] for index in range(counts.total)]
    failed = [phrase("of_item", item=item.task_id, error=text_of(item.error)) for item in items if item.status in _FAILED]
    named = failed[:NAMED_ITEMS]
    why = phrase("items_failed", failed=counts.unsuccessful, total=counts.total, named=named, left=len(failed) - len(named))
    return TaskError(code="item_failed", why=why)


def _results(schedule: TaskSchedule, task: TaskStar, counts: ItemCounts) -> list[Any]:
    items = (schedule.constellation.tasks[item_id(task.task_id, index)] for index in range(counts.total))
    return [item.result for item in items if item.status is TaskStatus.COMPLETED]
