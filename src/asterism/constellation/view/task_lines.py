"""A constellation as lines: the graph on the left, plan or status of each task on the right.

All foreign text goes through ``words.plain``, so a device cannot control the terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.fan_out import ItemCounts, items_words
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.constellation.view.graph import NODE, GraphRow, draw, process_words, start_words
from asterism.constellation.view.words import ROLE_WORDS, place_of, result_words
from asterism.views.text.styled_line import StyledLine, cell_width
from asterism.views.words import count, duration, plain, preview

MAX_NAME = 28
BAR_CELLS = 12

_SPINNER = "◐◓◑◒"
_LOOKS = {
    TaskStatus.PENDING: ("○", "dim"),
    TaskStatus.WAITING_DEPENDENCY: ("○", "dim"),
    TaskStatus.RUNNING: ("◐", "cyan"),
    TaskStatus.COMPLETED: ("●", "green"),
    TaskStatus.FAILED: ("✗", "bold red"),
    TaskStatus.CANCELLED: ("■", "yellow"),
    TaskStatus.SKIPPED: ("◌", "yellow"),
}
_PERSON = ("?", "bold magenta")


class LastSign(msgspec.Struct, frozen=True):
    """The last progress report of an attempt."""

    fraction: float | None
    message: str


class TaskTimes(msgspec.Struct, frozen=True):
    """Times of tasks by id, in seconds since the epoch: when their work first began, and since when they are queued."""

    began: Mapping[str, float]
    queued_since: Mapping[str, float]


def plan_lines(constellation: TaskConstellation) -> list[StyledLine]:
    """Return the lines of a plan that has not run: tasks with device, skill and inputs; nested tasks below theirs."""
    widths = _widths(constellation)

    def words(task: TaskStar) -> StyledLine:
        text = _names(task, widths)
        skill = task.resolved_skill or task.skill
        text.append(f"  {plain(skill, MAX_NAME)}" if skill and skill != task.name else "")
        text.append(f"  {preview(task.inputs)}" if task.inputs else "", "dim")
        text.append("".join(f"  {words}" for words in (*start_words(task), *process_words(task))), "italic")
        text.append("  needs approval" if task.requires_approval else "", _PERSON[1])
        for tip in task.tips:
            text.append(f"  ({plain(tip)})", "dim")
        return text

    lines = []
    for row in draw(constellation):
        lines.append(_line(row, words(constellation.tasks[row.task_id]) if row.task_id else StyledLine(), NODE, ""))
        nested = constellation.tasks[row.task_id].constellation if row.task_id else None
        if nested is not None:
            lines += [StyledLine("      ").append_line(line) for line in plan_lines(TaskConstellation.from_dict(nested))]
    return lines


def status_lines(
    constellation: TaskConstellation, signs: Mapping[str, LastSign], times: TaskTimes, now: float, *, limit: int, frame: int = 0
) -> list[StyledLine]:
    """Return the lines of a run: each task with its status, progress, time and error.

    Args:
        constellation: the current constellation.
        signs: last progress report of each task.
        times: when tasks began, and since when they are queued.
        now: seconds since the epoch.
        limit: lines at most; beyond it the rows between tasks are dropped, then all tasks but running and failed ones.
        frame: number of the animation frame.
    """
    widths = _widths(constellation)
    queued_items = Counter(constellation.tasks[task_id].item_of for task_id in times.queued_since)

    def line(row: GraphRow) -> StyledLine:
        if not row.task_id:
            return _line(row, StyledLine(), "", "")
        task = constellation.tasks[row.task_id]
        symbol, style = _PERSON if task.inquiry_id else _LOOKS[task.status]
        if task.task_id in times.queued_since:
            symbol, style = _LOOKS[TaskStatus.PENDING]
        elif task.status is TaskStatus.RUNNING and not task.inquiry_id:
            symbol = _SPINNER[frame % len(_SPINNER)]
        if task.items is not None and task.status is TaskStatus.RUNNING:
            state = _items_state(task, task.items, queued_items[task.task_id], now)
        else:
            state = _state(task, signs.get(task.task_id), times, now)
        words = _names(task, widths).append(f"{ROLE_WORDS[task.role]}  " if task.role != "task" else "", "italic")
        return _line(row, words.append_line(state), symbol, style)

    planned = constellation.in_order()
    if len(planned) <= limit:
        rows = draw(constellation)
        return [line(row) for row in rows if row.task_id or len(rows) <= limit]
    dull = (TaskStatus.WAITING_DEPENDENCY, TaskStatus.COMPLETED, TaskStatus.PENDING)
    chosen = [task for task in planned if task.status not in dull]
    chosen.sort(key=lambda task: (task.status is not TaskStatus.RUNNING, task.task_id in times.queued_since, -task.ended_at))
    lines = [line(GraphRow(NODE, task.task_id)) for task in chosen[: max(1, limit - 1)]]
    left = len(planned) - len(lines)
    return [*lines, StyledLine(f"… and {count(left, 'task')} more", "dim")] if left else lines


def status_counts(constellation: TaskConstellation, queued: Collection[str]) -> str:
    """Return the number of tasks by status: ``3 of 5 done, 1 running, 1 queued``; the ``queued`` ones have not begun.

    Items are not counted, except those that wait for a person. Handlers are counted apart, once they
    run: ``; handlers: 1 done, 1 running``.
    """
    everything = constellation.in_order()
    tasks = [task for task in everything if task.role == "task"]
    done = sum(1 for task in tasks if task.status is TaskStatus.COMPLETED)
    waiting = Counter(task.role == "task" for task in constellation.tasks.values() if task.inquiry_id)
    words = ", ".join((f"{done} of {len(tasks)} done", *_counts(tasks, queued, waiting[True])))
    handlers = [task for task in everything if task.role != "task" and task.status is not TaskStatus.SKIPPED]
    done = sum(1 for task in handlers if task.status is TaskStatus.COMPLETED)
    parts = [*([f"{done} done"] if done else []), *_counts(handlers, queued, waiting[False])]
    return f"{words}; handlers: {', '.join(parts)}" if parts else words


def _counts(tasks: Sequence[TaskStar], queued: Collection[str], waiting: int) -> list[str]:
    """Return the number of tasks that have not completed, by status; ``waiting`` for a person."""
    started = [task for task in tasks if task.status is TaskStatus.RUNNING and not task.inquiry_id]
    in_queue = sum(1 for task in started if task.task_id in queued)
    ended = Counter(task.status for task in tasks)
    bad = (TaskStatus.FAILED, TaskStatus.SKIPPED, TaskStatus.CANCELLED)
    numbers = [(len(started) - in_queue, "running"), (in_queue, "queued"), (waiting, "waiting for a person")]
    numbers += [(ended[status], status.lower()) for status in bad]
    return [f"{number} {words}" for number, words in numbers if number > 0]


def _line(row: GraphRow, words: StyledLine, symbol: str, style: str) -> StyledLine:
    line = StyledLine(fixed=True)
    for char in row.lanes:
        line.append(symbol, style) if char == NODE else line.append(char, "dim")
    line.append("  ").append_line(words)
    line.append("  " if row.task_id and row.note else "").append(plain(row.note), "italic dim" if row.task_id else "italic")
    return line.rstrip()


def _widths(constellation: TaskConstellation) -> tuple[int, int, int]:
    """Return the widths of the columns task id, name and device, in cells."""
    tasks = constellation.in_order()
    return _width(task.task_id for task in tasks), _width({task.name for task in tasks}), _width({place_of(task) for task in tasks})


def _width(texts: Iterable[str]) -> int:
    return max((cell_width(plain(text, MAX_NAME)) for text in texts), default=0)


def _names(task: TaskStar, widths: tuple[int, int, int]) -> StyledLine:
    text = StyledLine()
    for part, width, style in zip((task.task_id, task.name, place_of(task)), widths, ("dim", "bold", ""), strict=True):
        shown = plain(part, MAX_NAME)
        text.append(shown, style).append(" " * (width - cell_width(shown) + 2))
    return text


def _state(task: TaskStar, sign: LastSign | None, times: TaskTimes, now: float) -> StyledLine:
    text = StyledLine()
    began = times.began.get(task.task_id, task.started_at)
    tries = f"attempt {task.attempts}  " if task.attempts > 1 else ""
    match task.status:
        case TaskStatus.RUNNING if task.inquiry_id:
            text.append(f"waits for a person  {duration(now - task.started_at)}", _PERSON[1])
        case TaskStatus.RUNNING if task.wait:
            text.append(f"waits  {duration(now - task.started_at)}", "cyan")
        case TaskStatus.RUNNING if task.task_id in times.queued_since:
            text.append(f"queued  {duration(max(0.0, now - times.queued_since[task.task_id]))}  {tries}", "dim")
            text.append(plain(sign.message) if sign else "", "dim")
        case TaskStatus.RUNNING:
            _append_bar(text, sign.fraction if sign else None)
            text.append(f"{duration(max(0.0, now - began))}  {tries}", "cyan").append(plain(sign.message) if sign else "")
        case TaskStatus.COMPLETED:
            text.append(f"done  {duration(task.ended_at - began)}  ", "green").append(tries).append(result_words(task), "dim")
        case TaskStatus.PENDING if task.error:
            wait_s = max(0.0, task.not_before - now)
            text.append(f"retry in {duration(wait_s)}  {tries}", "yellow").append(plain(task.error.words), "dim")
        case TaskStatus.PENDING:
            text.append("ready", "dim")
        case TaskStatus.WAITING_DEPENDENCY:
            pass
        case _:
            text.append(f"{str(task.status).lower()}  ", _LOOKS[task.status][1]).append(tries)
            text.append(plain(task.error.words) if task.error else "")
    return text


def _items_state(task: TaskStar, items: ItemCounts, queued: int, now: float) -> StyledLine:
    text = StyledLine()
    _append_bar(text, items.settled / max(1, items.total))
    text.append(f"{duration(max(0.0, now - task.started_at))}  {items_words(items)}", "cyan")
    return text.append(f", {queued} queued" if queued else "", "dim")


def _append_bar(text: StyledLine, fraction: float | None) -> None:
    if fraction is None:
        text.append("running  ", "cyan")
        return
    full = round(max(0.0, min(1.0, fraction)) * BAR_CELLS)
    text.append("━" * full, "cyan").append("─" * (BAR_CELLS - full), "dim").append(f" {fraction:4.0%}  ", "cyan")
