"""Metrics of a constellation run: work, waits, parallelism, and wall time compared to the critical path. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import msgspec

from asterism.constellation.machine.events import AskPlanner, Dispatch
from asterism.constellation.model.analysis import critical_path, parallel_width
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.view.history import ConstellationHistory
from asterism.engine.control.children import StartChild
from asterism.engine.control.run_control import AskPerson


class TaskMetrics(msgspec.Struct, kw_only=True):
    """Metrics of a task.

    Attributes:
        attempts: number of attempts started.
        worked_s: seconds in attempts that a device has begun.
        waited_s: seconds between ready and begun, including backoffs and the queue of a busy device.
        people_s: seconds waiting for a person.
    """

    attempts: int = 0
    worked_s: float = 0.0
    waited_s: float = 0.0
    people_s: float = 0.0


class Metrics(msgspec.Struct, kw_only=True):
    """Metrics of a run.

    Attributes:
        tasks, handlers: numbers of tasks, and of those that handle the end of the run.
        attempts: number of attempts at both; a skipped task has no attempt.
        worked_s, waited_s: sums over the tasks, see ``TaskMetrics``.
        people_s: seconds waiting for people, including approvals of plans.
        planner_s: seconds waiting for the planner.
        parallel_width: attempts at a time that the plan allows.
        most_at_once: attempts at a time that there were at most.
        critical_path_s: work on the longest chain in seconds; no run can be shorter.
        critical_path: ids of the tasks on that chain, in order.
        wall_s: seconds from the first entry to the last, or to now while the run lasts.
        wall_over_critical_path: ratio of the two; 1.0 is the optimum, None if there was no work.
        by_task: metrics of each task, by id.
    """

    tasks: int
    handlers: int
    attempts: int
    worked_s: float
    waited_s: float
    people_s: float
    planner_s: float
    parallel_width: int
    most_at_once: int
    critical_path_s: float
    critical_path: list[str]
    wall_s: float
    wall_over_critical_path: float | None
    by_task: dict[str, TaskMetrics]


def measure(history: ConstellationHistory, now: float) -> Metrics:
    """Measure a run.

    Args:
        history: history of the run.
        now: seconds since the epoch; outstanding effects last until then.
    """
    until = history.until(now)
    by_task = _by_task(history, until)
    weights = _weights(history.constellation, by_task)
    longest_s, path = critical_path(history.constellation, weights)
    wall_s = until - history.first_at
    handlers = sum(task.role != "task" for task in history.constellation.in_order())
    return Metrics(
        tasks=len(weights) - handlers,
        handlers=handlers,
        attempts=sum(each.attempts for each in by_task.values()),
        worked_s=sum(each.worked_s for each in by_task.values()),
        waited_s=sum(each.waited_s for each in by_task.values()),
        people_s=sum((span.until or until) - span.since for span in history.spans.values() if isinstance(span.effect, AskPerson)),
        planner_s=sum((span.until or until) - span.since for span in history.spans.values() if isinstance(span.effect, AskPlanner)),
        parallel_width=parallel_width(history.constellation),
        most_at_once=_most_at_once(history, until),
        critical_path_s=longest_s,
        critical_path=[task_id for task_id in path if weights.get(task_id)],
        wall_s=wall_s,
        wall_over_critical_path=wall_s / longest_s if longest_s > 0 else None,
        by_task=by_task,
    )


def _weights(constellation: TaskConstellation, by_task: Mapping[str, TaskMetrics]) -> dict[str, float]:
    """Return the seconds that each task of the plan must last at least: its work, of a fan-out that of its longest item."""
    weights = {task.task_id: by_task[task.task_id].worked_s for task in constellation.in_order()}
    if constellation.item_count:
        for task_id, each in by_task.items():
            if of := constellation.tasks[task_id].item_of:
                weights[of] = max(weights[of], each.worked_s)
    return weights


def _by_task(history: ConstellationHistory, until: float) -> dict[str, TaskMetrics]:
    found = {task.task_id: TaskMetrics() for task in history.constellation.in_order_with_items()}
    for effect_id, span in history.spans.items():
        each = found.get(history.part_of(effect_id))
        if each is None:
            continue  # of a discarded constellation, or of no task
        end = span.until or until
        if isinstance(span.effect, Dispatch | StartChild):
            begun = end if span.begun is None else span.begun
            each.attempts += 1
            each.worked_s += end - begun
            each.waited_s += begun - span.since
        elif isinstance(span.effect, AskPerson):
            each.people_s += end - span.since
    for task_id, waited_s in history.waited.items():
        if task_id in found:
            found[task_id].waited_s += waited_s
    return found


def _most_at_once(history: ConstellationHistory, until: float) -> int:
    spans = [(span.begun, span.until or until) for span in history.spans.values() if isinstance(span.effect, Dispatch | StartChild)]
    begun = [(start, end) for start, end in spans if start is not None]
    # An end counts before a start of the same moment.
    steps = sorted([(start, 1) for start, _ in begun] + [(end, -1) for _, end in begun])
    return max(itertools.accumulate(step for _, step in steps), default=0)
