"""The tasks of a constellation run one by one, with attempts, waits and log lines; and its metrics."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.constellation.view.graph import process_words
from asterism.constellation.view.history import ConstellationHistory
from asterism.constellation.view.item_lines import item_lines, status_word
from asterism.constellation.view.metrics import Metrics, TaskMetrics
from asterism.constellation.view.words import ROLE_WORDS, place_of
from asterism.views.text.history import MAX_LISTED, HistoryLine, history_line
from asterism.views.text.styled_line import StyledLine, TimeFormat
from asterism.views.words import count, duration, plain, preview


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
