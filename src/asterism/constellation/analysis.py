"""The critical path and the parallel width of a constellation."""

from __future__ import annotations

import collections
from collections.abc import Mapping

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.graph import longest_path, topological_order


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
    weight = {task_id: 1.0 if weights is None else weights.get(task_id, 0.0) for task_id in constellation.tasks}
    return longest_path(_order(constellation), constellation.successors, weight)


def parallel_width(constellation: TaskConstellation) -> int:
    """Return the number of tasks that can run at the same time: the most tasks on one level.

    O(n + e).

    The level of a task is the number of tasks on the longest chain before it. This is the width of
    a run whose tasks take about equally long. The widest antichain, which may be wider, costs
    O(n^2.5) to find.
    """
    levels: dict[str, int] = {}
    for task_id in _order(constellation):
        levels[task_id] = max((levels[before] + 1 for before in constellation.predecessors(task_id)), default=0)
    return max(collections.Counter(levels.values()).values(), default=0)


def _order(constellation: TaskConstellation) -> list[str]:
    return topological_order((task.task_id for task in constellation.in_order()), constellation.successors)
