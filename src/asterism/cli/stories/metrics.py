"""What a run took: work, waits, width, and how far it was from the shortest way. Pure: a story in, numbers out."""

from __future__ import annotations

import itertools

import msgspec

from asterism.cli.stories.constellation_story import ConstellationStory
from asterism.constellation.analysis import critical_path, parallel_width
from asterism.machines.children import StartChild
from asterism.machines.constellation_agent.events import AskPlanner, Dispatch
from asterism.machines.run_control import AskPerson


class TaskMetrics(msgspec.Struct, kw_only=True):
    """One task, in seconds.

    Attributes:
        attempts: how many were started.
        worked_s: in attempts; a busy device's queue is part of it.
        waited_s: between being able to start and starting, backoffs included.
        people_s: waiting for a person.
    """

    attempts: int = 0
    worked_s: float = 0.0
    waited_s: float = 0.0
    people_s: float = 0.0


class Metrics(msgspec.Struct, kw_only=True):
    """One run.

    Attributes:
        tasks, attempts: how many; a skipped task has no attempt.
        worked_s, waited_s: sums over the tasks, see ``TaskMetrics``.
        people_s: waiting for people, those who approve plans included.
        planner_s: waiting for the planner.
        parallel_width: attempts at a time, by the plan; ``most_at_once``: as it was.
        critical_path_s: the work on the heaviest chain: with enough devices no run is shorter.
        critical_path: its tasks, in order.
        wall_s: from the first entry to the last, or to now while it is not over.
        wall_over_critical_path: 1.0 is as fast as can be; None where nothing has worked.
        by_task: by id.
    """

    tasks: int
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


def measure(story: ConstellationStory, now: float) -> Metrics:
    """Measure a run as far as it has been read.

    Args:
        story: of the run.
        now: seconds since the epoch; what is under way lasts until then.
    """
    until = story.until(now)
    by_task = _by_task(story, until)
    weights = {task_id: each.worked_s for task_id, each in by_task.items()}
    longest_s, path = critical_path(story.constellation, weights)
    wall_s = until - story.first_at
    return Metrics(
        tasks=len(by_task),
        attempts=sum(each.attempts for each in by_task.values()),
        worked_s=sum(each.worked_s for each in by_task.values()),
        waited_s=sum(each.waited_s for each in by_task.values()),
        people_s=sum((span.until or until) - span.since for span in story.spans.values() if isinstance(span.effect, AskPerson)),
        planner_s=sum((span.until or until) - span.since for span in story.spans.values() if isinstance(span.effect, AskPlanner)),
        parallel_width=parallel_width(story.constellation),
        most_at_once=_most_at_once(story, until),
        critical_path_s=longest_s,
        critical_path=[task_id for task_id in path if weights.get(task_id)],
        wall_s=wall_s,
        wall_over_critical_path=wall_s / longest_s if longest_s > 0 else None,
        by_task=by_task,
    )


def _by_task(story: ConstellationStory, until: float) -> dict[str, TaskMetrics]:
    found = {task.task_id: TaskMetrics() for task in story.constellation.in_order()}
    for effect_id, span in story.spans.items():
        each = found.get(story.part_of(effect_id))
        if each is None:
            continue  # of a constellation that was thrown away, or of none
        length_s = (span.until or until) - span.since
        if isinstance(span.effect, Dispatch | StartChild):
            each.attempts += 1
            each.worked_s += length_s
        elif isinstance(span.effect, AskPerson):
            each.people_s += length_s
    for task_id, waited_s in story.waited.items():
        if task_id in found:
            found[task_id].waited_s = waited_s
    return found


def _most_at_once(story: ConstellationStory, until: float) -> int:
    attempts = [span for span in story.spans.values() if isinstance(span.effect, Dispatch | StartChild)]
    # An end counts before a start of the same moment.
    steps = sorted([(span.since, 1) for span in attempts] + [(span.until or until, -1) for span in attempts])
    return max(itertools.accumulate(step for _, step in steps), default=0)
