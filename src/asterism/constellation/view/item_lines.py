"""The items of a task that deserve a line of their own: those that are under way, retried, failed or asked about."""

from __future__ import annotations

from collections.abc import Container

from asterism.constellation.model.fan_out import item_id
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.constellation.view.fan_out import task_items_words
from asterism.constellation.view.history import ConstellationHistory
from asterism.constellation.view.metrics import Metrics
from asterism.views.text.styled_line import StyledLine
from asterism.views.words import count, duration, plain

MAX_ITEM_LINES = 10

_ORDER = (TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.RUNNING, TaskStatus.PENDING)


def item_lines(history: ConstellationHistory, task: TaskStar, metrics: Metrics) -> list[StyledLine]:
    """Return lines about a task's fan-out: failed items first; none for another task."""
    if task.for_each is None:
        return []
    tasks, queued = history.constellation.tasks, history.queued_since()
    lines = [StyledLine(f"      {task_items_words(task)}", "dim")]
    items = [tasks[item_id(task.task_id, index)] for index in range(task.items.total if task.items else 0)]
    shown = [item for item in items if item.status in _ORDER or (item.attempts > 1 and item.settled)]
    shown.sort(key=lambda item: (_ORDER.index(item.status) if item.status in _ORDER else len(_ORDER), item.task_id in queued))
    for item in shown[:MAX_ITEM_LINES]:
        line = StyledLine(f"      {plain(item.task_id)}  ", "dim").append(*status_word(item, queued))
        worked_s = metrics.by_task[item.task_id].worked_s
        numbers = [count(item.attempts, "attempt")] if item.attempts else []
        numbers += [f"worked {duration(worked_s)}"] if worked_s else []
        line.append(f"  {', '.join(numbers)}" if numbers else "", "dim")
        if sign := history.signs.get(item.task_id):
            line.append(f"  {sign.fraction:.0%}" if sign.fraction is not None else "").append(f"  {plain(sign.message)}")
        lines.append(line.append(f"  {plain(item.error.words)}" if item.error else ""))
    left = len(shown) - MAX_ITEM_LINES
    return [*lines, StyledLine(f"      and {count(left, 'item')} more; --json has all", "dim")] if left > 0 else lines


def status_word(task: TaskStar, queued: Container[str]) -> tuple[str, str]:
    """Return the status of a task or an item in words, and its style."""
    if task.inquiry_id:
        return "waits for a person", "yellow"
    word = "queued" if task.task_id in queued else str(task.status).lower()
    return word, "green" if task.status is TaskStatus.COMPLETED else "yellow"
