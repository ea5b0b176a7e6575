"""A DAG drawn with lines in a terminal: one row for each task, lanes on its left, as ``git log --graph`` does it.

A lane belongs to the task that waits at its lower end; lines to the same task are joined as early as they can be.
Pure: ids in, text out. Also the Mermaid flowchart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.line import DependencyType, TaskStarLine
from asterism.views.words import place_of

MAX_LANES = 24
"""A drawing that needs more side by side is a list with words instead."""
NODE = "●"

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_BOX = dict(enumerate(" ╵╷│╴╯╮┤╶╰╭├─┴┬┼"))


class DrawnRow(msgspec.Struct, frozen=True):
    """One row of a drawing.

    Attributes:
        lanes: the lines and, in the row of a task, its node.
        task_id: the task of the row; empty in a row between two.
        note: words on the line above a task: the condition it waits for.
    """

    lanes: str
    task_id: str = ""
    note: str = ""


def draw(constellation: TaskConstellation) -> list[DrawnRow]:
    """The rows of a constellation, each task after those it waits for."""
    order = _branch_by_branch(constellation)
    rows = _Lanes(constellation).rows(order)
    if rows is None:
        return [DrawnRow(NODE, task_id, _waits_for(constellation, task_id)) for task_id in order]
    width = max((len(row.lanes) for row in rows), default=0)
    return [msgspec.structs.replace(row, lanes=row.lanes.ljust(width)) for row in rows]


def _branch_by_branch(constellation: TaskConstellation) -> list[str]:
    """Ids so that each comes before its successors, and what belongs together stays together: few lanes at a time."""
    waiting = {task_id: len(constellation.predecessors(task_id)) for task_id in constellation.tasks}
    ready = [task.task_id for task in reversed(constellation.in_order()) if not waiting[task.task_id]]
    order = []
    while ready:
        task_id = ready.pop()
        order.append(task_id)
        for following in reversed(constellation.successors(task_id)):
            waiting[following] -= 1
            if not waiting[following]:
                ready.append(following)
    return order


def condition_words(line: TaskStarLine, *, named: bool) -> str:
    """What a dependency asks beyond success; empty for SUCCESS_ONLY.

    Args:
        line: the dependency.
        named: say whose end it looks at.
    """
    of = f"{line.source}: " if named else ""
    match line.type:
        case DependencyType.CONDITIONAL:
            return f"if {of}{line.condition}"
        case DependencyType.COMPLETION_ONLY:
            return f"{of}even if it fails"
        case DependencyType.UNCONDITIONAL:
            return f"{of}whatever becomes of it"
        case DependencyType.SUCCESS_ONLY:
            return ""


def _notes(constellation: TaskConstellation, task_id: str) -> list[str]:
    lines = constellation.lines_in(task_id)
    return [words for line in lines if (words := condition_words(line, named=len(lines) > 1))]


def _waits_for(constellation: TaskConstellation, task_id: str) -> str:
    before = constellation.predecessors(task_id)
    more = f" and {len(before) - 3} more" if len(before) > 3 else ""  # noqa: PLR2004 - a line has room for three
    return "; ".join([*(["after " + ", ".join(before[:3]) + more] if before else []), *_notes(constellation, task_id)])


class _Lanes:
    """The lanes side by side: which task waits below each; None where there is no line."""

    def __init__(self, constellation: TaskConstellation) -> None:
        self._constellation = constellation
        self._lanes: list[str | None] = []

    def rows(self, order: Iterable[str]) -> list[DrawnRow] | None:
        """The rows; None when they would be too wide."""
        rows: list[DrawnRow] = []
        for task_id in order:
            self._annotate(rows, task_id)
            column = self._lanes.index(task_id) if task_id in self._lanes else self._free()
            rows.append(DrawnRow(self._text(lambda index, column=column: NODE if index == column else ""), task_id))  # type: ignore[misc]
            self._lanes[column] = None
            targets = self._constellation.successors(task_id)
            if targets:
                rows.append(DrawnRow(self._connect(column, targets)))
            while self._lanes and self._lanes[-1] is None:
                self._lanes.pop()
            if len(self._lanes) > MAX_LANES:
                return None
        return rows

    def _annotate(self, rows: list[DrawnRow], task_id: str) -> None:
        """Write the conditions of a task on the line above it; on the row that is there already, if it is free."""
        for note in _notes(self._constellation, task_id):
            if rows and not rows[-1].task_id and not rows[-1].note and not set(rows[-1].lanes) - {"│", " "}:
                rows.pop()
            rows.append(DrawnRow(self._text(lambda index: "┆" if self._lanes[index] == task_id else ""), note=note))

    def _free(self) -> int:
        if None not in self._lanes:
            self._lanes.append(None)
        return self._lanes.index(None)

    def _text(self, here: Callable[[int], str]) -> str:
        cells = [here(index) or ("│" if lane is not None else " ") for index, lane in enumerate(self._lanes)]
        return " ".join(cells).rstrip()

    def _connect(self, column: int, targets: Sequence[str]) -> str:
        """Draw the lines from a task's column to the lanes of its targets; new ones get a lane."""
        directions = {index: _UP | _DOWN for index, lane in enumerate(self._lanes) if lane is not None}
        directions[column] = _UP
        crossed = set(directions) - {column}
        for target in targets:
            if target in self._lanes:
                end = self._lanes.index(target)
            elif self._lanes[column] is None:
                self._lanes[column] = target
                directions[column] |= _DOWN
                continue
            else:
                end = self._free()
                self._lanes[end] = target
                directions[end] = _DOWN
            directions[column] |= _RIGHT if end > column else _LEFT
            directions[end] |= _LEFT if end > column else _RIGHT
            crossed.discard(end)
            for between in range(min(column, end) + 1, max(column, end)):
                directions[between] = directions.get(between, 0) | _LEFT | _RIGHT
        return _drawn(directions, len(self._lanes), crossed)


def _drawn(directions: Mapping[int, int], width: int, crossed: set[int]) -> str:
    """Cells as box characters; a lane that is only crossed stays a line of its own."""
    text = ""
    for index in range(width):
        here, following = directions.get(index, 0), directions.get(index + 1, 0)
        text += "│" if index in crossed else _BOX[here]
        text += "─" if here & _RIGHT and following & _LEFT else " "
    return text.rstrip()


# -- Mermaid ---------------------------------------------------------------------------------------

_LINKS = {
    DependencyType.SUCCESS_ONLY: "-->",
    DependencyType.CONDITIONAL: "-.->",
    DependencyType.COMPLETION_ONLY: "-->",
    DependencyType.UNCONDITIONAL: "==>",
}


def mermaid_flowchart(constellation: TaskConstellation) -> str:
    """The constellation as a Mermaid flowchart, with the status of each task where it has moved."""
    names = {task.task_id: f"t{number}" for number, task in enumerate(constellation.in_order(), 1)}
    lines = ["flowchart TD"]
    for task in constellation.in_order():
        status = "" if task.editable else f"<br/>{task.status}"
        skill = task.resolved_skill or task.skill or task.name
        where = f"on {task.device}" if task.constellation is None else place_of(task)
        lines.append(f'    {names[task.task_id]}["{_escaped(task.task_id)}<br/>{_escaped(skill)}<br/>{_escaped(where)}{status}"]')
    for line in constellation.lines.values():
        words = condition_words(line, named=False)
        label = f'|"{_escaped(words)}"|' if words else ""
        lines.append(f"    {names[line.source]} {_LINKS[line.type]}{label} {names[line.target]}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    safe = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "&": "#amp;", "`": "#96;"}
    return "".join(safe.get(char, char if char.isprintable() else " ") for char in text)
