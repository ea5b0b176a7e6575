"""The critical path and the parallel width of a constellation."""

from __future__ import annotations

import collections
import graphlib
from collections.abc import Iterable, Mapping

from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.task import TaskStar


def critical_path(constellation: TaskConstellation, weights: Mapping[str, float] | None = None) -> tuple[float, list[str]]:
    """Return the heaviest chain of tasks, which bounds the duration of the run from below.

    O(n + e).

    Args:
        constellation: acyclic.
        weights: task id -> weight, such as seconds of work, not negative; a missing task weighs
            nothing. By default each task weighs 1, which gives the longest chain in tasks.

    Returns:
        ``(total weight, task ids in order)``; ``(0.0, [])`` for an empty constellation.
    """
    best: dict[str, float] = {}
    before: dict[str, str] = {}
    for task_id in _order(constellation):
        best[task_id] = best.get(task_id, 0.0) + (1.0 if weights is None else weights.get(task_id, 0.0))
        for following in constellation.successors(task_id):
            if best[task_id] > best.get(following, -1.0):
                best[following], before[following] = best[task_id], task_id
    if not best:
        return 0.0, []
    path = [max(best, key=best.__getitem__)]
    while path[-1] in before:
        path.append(before[path[-1]])
    return best[path[0]], path[::-1]


def parallel_width(constellation: TaskConstellation) -> int:
    """Return the number of tasks that can run at the same time: the most tasks on one level.

    O(n + e).

    The level of a task is the number of tasks on the longest chain before it. This is the width of
    a run whose tasks take about equally long. The widest antichain, which may be wider, costs
    O(n^2.5) to find. A task with ``for_each`` counts as its items.
    """
    levels: dict[str, int] = {}
    for task_id in _order(constellation):
        levels[task_id] = max((levels[before] + 1 for before in constellation.predecessors(task_id)), default=0)
    widths: collections.Counter[int] = collections.Counter()
    for task_id, level in levels.items():
        widths[level] += _width(constellation.tasks[task_id])
    return max(widths.values(), default=0)


def _width(task: TaskStar) -> int:
    """Return the number of items of a task that can be under way at a time, as far as they are known; else 1."""
    each = task.for_each
    total = task.items.total if task.items else len(each.items) if each and isinstance(each.items, list) else 1
    return min(total, (each.max_concurrent if each else None) or total)


def _order(constellation: TaskConstellation) -> Iterable[str]:
    sorter = graphlib.TopologicalSorter({task.task_id: () for task in constellation.in_order()})
    for line in constellation.lines.values():
        sorter.add(line.target, line.source)
    return sorter.static_order()
