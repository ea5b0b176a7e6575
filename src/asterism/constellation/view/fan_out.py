"""Fan-out in words and rows: the items of a task, for views and commands."""

from __future__ import annotations

from typing import Any, TypeGuard

import msgspec

from asterism.constellation.model.fan_out import ForEach, ItemCounts, items_words
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.views.delta import LogLine, brief
from asterism.views.words import count, plain, preview


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
