"""Draw a DAG with lines, one row for each task and lanes on its left, as ``git log --graph`` does; or as Mermaid.

A lane belongs to the task that waits at its lower end. Lines to the same task are joined as early as possible. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.line import DependencyType, TaskStarLine
from asterism.constellation.model.task import TaskStar
from asterism.constellation.view.words import ROLE_WORDS, place_of, task_items_words
from asterism.views.words import plain, preview

MAX_NOTES = 3
"""Dependencies of a task with the same condition that are drawn one by one; more are drawn as one."""
MAX_LANES = 12
"""Lanes of a drawing at most; a wider graph becomes a list with words."""
NODE = "●"

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_BOX = dict(enumerate(" ╵╷│╴╯╮┤╶╰╭├─┴┬┼"))


class GraphRow(msgspec.Struct, frozen=True):
    """A row of a drawing.

    Attributes:
        lanes: the lines and, in the row of a task, its node.
        task_id: task of the row; empty in a row between two tasks.
        note: the condition that the task below waits for, in words.
    """

    lanes: str
    task_id: str = ""
    note: str = ""


def draw(constellation: TaskConstellation) -> list[GraphRow]:
    """Return the rows of a constellation, each task after its predecessors."""
    order = _branch_by_branch(constellation)
    rows = _Lanes(constellation).rows(order)
    if rows is None:
        return [GraphRow(NODE, task_id, _waits_for(constellation, task_id)) for task_id in order]
    width = max((len(row.lanes) for row in rows), default=0)
    return [msgspec.structs.replace(row, lanes=row.lanes.ljust(width)) for row in rows]


def _branch_by_branch(constellation: TaskConstellation) -> list[str]:
    """Return the task ids in topological order, branch by branch, which needs few lanes at a time."""
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
    """Return the condition of a dependency in words; empty for SUCCESS_ONLY.

    Args:
        line: the dependency.
        named: include the id of its source.
    """
    of = f"{line.source}: " if named else ""
    match line.type:
        case DependencyType.CONDITIONAL:
            return f"if {of}{line.condition}"
        case DependencyType.COMPLETION_ONLY:
            return f"{of}even if it fails"
        case DependencyType.UNCONDITIONAL:
            return f"{of}in any case"
        case DependencyType.SUCCESS_ONLY:
            return ""


def _notes(constellation: TaskConstellation, task_id: str) -> list[str]:
    lines = constellation.lines_in(task_id)
    sources: dict[str, list[str]] = {}
    for line in lines:
        sources.setdefault(condition_words(line, named=False), []).append(line.source)
    sources.pop("", None)
    return [
        words
        for line in lines
        if (words := condition_words(line, named=len(lines) > 1)) and len(sources[condition_words(line, named=False)]) <= MAX_NOTES
    ] + [f"{', '.join(of[:2])} and {len(of) - 2} more: {words}" for words, of in sources.items() if len(of) > MAX_NOTES]


def _waits_for(constellation: TaskConstellation, task_id: str) -> str:
    before = constellation.predecessors(task_id)
    more = f" and {len(before) - 3} more" if len(before) > 3 else ""  # noqa: PLR2004 - a line has room for three
    return "; ".join([*(["after " + ", ".join(before[:3]) + more] if before else []), *_notes(constellation, task_id)])


class _Lanes:
    """The lanes side by side, each with the id of the task that waits at its lower end; None for a free lane."""

    def __init__(self, constellation: TaskConstellation) -> None:
        self._constellation = constellation
        self._lanes: list[str | None] = []

    def rows(self, order: Iterable[str]) -> list[GraphRow] | None:
        """Return the rows; None if they would be too wide."""
        rows: list[GraphRow] = []
        for task_id in order:
            self._annotate(rows, task_id)
            column = self._lanes.index(task_id) if task_id in self._lanes else self._free()
            rows.append(GraphRow(self._text(lambda index, column=column: NODE if index == column else ""), task_id))  # type: ignore[misc]
            self._lanes[column] = None
            targets = self._constellation.successors(task_id)
            if targets:
                rows.append(GraphRow(self._connect(column, targets)))
            while self._lanes and self._lanes[-1] is None:
                self._lanes.pop()
            if len(self._lanes) > MAX_LANES:
                return None
        return rows

    def _annotate(self, rows: list[GraphRow], task_id: str) -> None:
        """Add rows with the conditions of a task above it; reuse a last row that has only straight lines."""
        for note in _notes(self._constellation, task_id):
            if rows and not rows[-1].task_id and not rows[-1].note and not set(rows[-1].lanes) - {"│", " "}:
                rows.pop()
            rows.append(GraphRow(self._text(lambda index: "┆" if self._lanes[index] == task_id else ""), note=note))

    def _free(self) -> int:
        if None not in self._lanes:
            self._lanes.append(None)
        return self._lanes.index(None)

    def _text(self, here: Callable[[int], str]) -> str:
        cells = [here(index) or ("│" if lane is not None else " ") for index, lane in enumerate(self._lanes)]
        return " ".join(cells).rstrip()

    def _connect(self, column: int, targets: Sequence[str]) -> str:
        """Draw lines from the column of a task to the lanes of its targets; a new target gets a lane."""
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
    """Return the cells as box characters; a lane that is only crossed remains a vertical line."""
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


def start_words(task: TaskStar) -> list[str]:
    """Return in words what decides that a task starts, apart from its dependencies' types, and for which items."""
    words = (
        ROLE_WORDS[task.role],
        "after any" if task.join == "any" else "",
        f"when {plain(task.when)}" if task.when else "",
        task_items_words(task) if task.for_each else "",
    )
    return [it for it in words if it]


def process_words(task: TaskStar) -> list[str]:
    """Return in words what a task sets for its process: its folder, and its variables."""
    folder = [f"folder {plain(task.folder)}"] if task.folder else []
    return folder + ([f"env {preview(task.env)}"] if task.env else [])


def mermaid_flowchart(constellation: TaskConstellation) -> str:
    """Return a Mermaid flowchart of a constellation, with the status of each task that has started."""
    names = {task.task_id: f"t{number}" for number, task in enumerate(constellation.in_order(), 1)}
    lines = ["flowchart TD"]
    for task in constellation.in_order():
        status = "" if task.editable else f"<br/>{task.status}"
        status += "".join(f"<br/>{_escaped(words)}" for words in start_words(task))
        skill = task.resolved_skill or task.skill or task.name
        where = f"on {task.device}" if task.device else place_of(task)
        lines.append(f'    {names[task.task_id]}["{_escaped(task.task_id)}<br/>{_escaped(skill)}<br/>{_escaped(where)}{status}"]')
    for line in constellation.lines.values():
        words = condition_words(line, named=False)
        label = f'|"{_escaped(words)}"|' if words else ""
        lines.append(f"    {names[line.source]} {_LINKS[line.type]}{label} {names[line.target]}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    safe = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "&": "#amp;", "`": "#96;"}
    return "".join(safe.get(char, char if char.isprintable() else " ") for char in text)
