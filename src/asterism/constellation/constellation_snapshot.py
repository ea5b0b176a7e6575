"""A constellation as data and back, nothing lost: unlike ``to_dict``, which is for people, every order is kept."""

from __future__ import annotations

import msgspec

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.line import TaskStarLine
from asterism.constellation.task import TaskStar


class ConstellationSnapshot(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A constellation as data.

    Attributes:
        tasks: in the order of creation.
        lines: in the order they were put in, which is the order a task's dependencies are told in.
    """

    constellation_id: str
    name: str
    version: int
    generation: int
    tasks: list[TaskStar]
    lines: list[TaskStarLine]
    removed_tasks: list[str] = []
    removed_lines: list[str] = []
    unjudged: list[str] = []
    restless: list[str] = []


def to_snapshot(it: TaskConstellation) -> ConstellationSnapshot:
    """A constellation as data; it shares the tasks and dependencies, so write it before they change."""
    return ConstellationSnapshot(
        constellation_id=it.constellation_id,
        name=it.name,
        version=it.version,
        generation=it.generation,
        tasks=it.in_order(),
        lines=list(it.lines.values()),
        removed_tasks=sorted(it.removed_tasks),
        removed_lines=sorted(it.removed_lines),
        unjudged=list(it.unevaluated),
        restless=list(it.dirty),
    )


def from_snapshot(frozen: ConstellationSnapshot) -> TaskConstellation:
    """The constellation that was frozen. It was checked when it was made, and is not checked again."""
    it = TaskConstellation(frozen.constellation_id, frozen.name, generation=frozen.generation)
    it.version = frozen.version
    for task in frozen.tasks:
        it.insert_task(task)
    for line in frozen.lines:
        it.insert_line(line)
    it.removed_tasks = set(frozen.removed_tasks)
    it.removed_lines = set(frozen.removed_lines)
    it.unevaluated = dict.fromkeys(frozen.unjudged)
    it.dirty = dict.fromkeys(frozen.restless)
    return it
