"""The tasks of a constellation run one by one, with items, attempts, waits and log lines; and its metrics."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from asterism.constellation.model.fan_out import item_id
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.constellation.view.graph import process_words
from asterism.constellation.view.history import ConstellationHistory
from asterism.constellation.view.metrics import Metrics, TaskMetrics
from asterism.constellation.view.words import ROLE_WORDS, place_of, task_items_words
from asterism.views.text.history import MAX_LISTED, HistoryLine, history_line
from asterism.views.text.styled_line import StyledLine, TimeFormat
from asterism.views.words import count, duration, plain, preview

MAX_ITEM_LINES = 10
_ORDER = (TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.RUNNING, TaskStatus.PENDING)


def task_lines(
    history: ConstellationHistory,
    lines: Iterable[HistoryLine],
    metrics: Metrics,
    local_time: TimeFormat,
    below: Callable[[str], Iterable[StyledLine]],
) -> Iterator[StyledLine]:
    """Yield the lines about each listed task.

    Args:
        history: history of the run.
        lines: its log lines.
        metrics: its metrics.
        local_time: format of times.
        below: returns the lines about the child runs of a task.
    """
    tasks = history.constellation.in_order()
    chosen = tasks if len(tasks) <= MAX_LISTED else [task for task in tasks if _is_remarkable(task)][:MAX_LISTED]
    by_task: dict[str, list[HistoryLine]] = {task.task_id: [] for task in chosen}
    for it in lines:
        if it.part in by_task and it.weight == "event":
            by_task[it.part].append(it)
    queued = history.queued_since()
    for task in chosen:
        yield _task_line(task, queued, metrics.by_task[task.task_id])
        if task.inputs:
            yield StyledLine(f"      inputs: {preview(task.inputs)}", "dim")
        yield from (StyledLine(f"      {words}", "dim") for words in process_words(task))
        yield from item_lines(history, task, metrics)
        yield from (history_line(it, local_time) for it in by_task[task.task_id])
        yield from below(task.task_id)
    if left := len(tasks) - len(chosen):
        yield StyledLine(f"  and {count(left, 'task')} more; --json has all", "dim")


def _is_remarkable(task: TaskStar) -> bool:
    return task.attempts > 1 or task.status not in (TaskStatus.COMPLETED, TaskStatus.PENDING, TaskStatus.WAITING_DEPENDENCY)


def _task_line(task: TaskStar, queued: Container[str], metrics: TaskMetrics) -> StyledLine:
    line = StyledLine(f"  {plain(task.task_id)} ", "dim").append(plain(task.name), "bold")
    status, style = status_word(task, queued)
    line.append(f"  {status}", style)
    line.append(f"  {ROLE_WORDS[task.role]}" if task.role != "task" else "", "italic")
    line.append(f"  skill {plain(task.resolved_skill)}" if task.resolved_skill else "", "dim")
    line.append(f" {'on ' if task.device else ''}{place_of(task)}", "dim")
    numbers = [count(metrics.attempts, "attempt")] if metrics.attempts else []
    numbers += [f"worked {duration(metrics.worked_s)}"] if metrics.worked_s else []
    numbers += [f"waited {duration(metrics.waited_s)}"] if metrics.attempts else []
    numbers += [f"waited for people {duration(metrics.people_s)}"] if metrics.people_s else []
    return line.append(f"  {', '.join(numbers)}" if numbers else "", "dim")


def metric_lines(metrics: Metrics) -> list[StyledLine]:
    """Return the lines about the metrics of a run."""
    ratio = metrics.wall_over_critical_path if not metrics.people_s else None  # with a person's wait, it says nothing about the plan
    over = f", {ratio:.2f} x the critical path" if ratio is not None else ""
    width = f"at most {metrics.most_at_once} at once, the plan allows {metrics.parallel_width}"
    people = f"{duration(metrics.people_s)} waiting for people"
    handlers = f" and {count(metrics.handlers, 'handler')}" if metrics.handlers else ""
    lines = [
        f"{count(metrics.tasks, 'task')}{handlers}, {count(metrics.attempts, 'attempt')}; {width}",
        f"wall time {duration(metrics.wall_s)}{over}; worked {duration(metrics.worked_s)}",
        f"waited {duration(metrics.waited_s)} to start, {people}, {duration(metrics.planner_s)} for the planner",
    ]
    if metrics.critical_path:
        path = metrics.critical_path
        shown = path if len(path) <= 8 else [*path[:4], "…", *path[-3:]]  # noqa: PLR2004 - one line
        lines.append(f"critical path {duration(metrics.critical_path_s)}: {' → '.join(map(plain, shown))}")
    return [StyledLine(f"  {line}") for line in lines]


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
    if task.wait and task.status is TaskStatus.RUNNING and not task.items:
        return "waits", "yellow"
    word = "queued" if task.task_id in queued else str(task.status).lower()
    return word, "green" if task.status is TaskStatus.COMPLETED else "yellow"
