"""A lossless snapshot of a constellation.

Unlike ``to_dict``, which is for people, it preserves every order.
"""

from __future__ import annotations

import msgspec

from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.line import TaskStarLine
from asterism.constellation.model.task import TaskStar


class ConstellationSnapshot(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A constellation as data.

    Attributes:
        tasks: tasks in the order of creation.
        lines: dependencies in the order of insertion, in which a task's dependencies are listed.
    """

    constellation_id: str
    name: str
    version: int
    generation: int
    tasks: list[TaskStar]
    lines: list[TaskStarLine]
    removed_tasks: list[str] = []
    removed_lines: list[str] = []
    unevaluated: list[str] = []
    dirty: list[str] = []


def to_snapshot(it: TaskConstellation) -> ConstellationSnapshot:
    """Return a constellation as data.

    The data shares its tasks and dependencies, so encode it before they change.
    """
    return ConstellationSnapshot(
        constellation_id=it.constellation_id,
        name=it.name,
        version=it.version,
        generation=it.generation,
        tasks=it.in_order_with_items(),
        lines=list(it.lines.values()),
        removed_tasks=sorted(it.removed_tasks),
        removed_lines=sorted(it.removed_lines),
        unevaluated=list(it.unevaluated),
        dirty=list(it.dirty),
    )


def from_snapshot(snapshot: ConstellationSnapshot) -> TaskConstellation:
    """Return the constellation of a snapshot, without checks: it was checked when it was made."""
    it = TaskConstellation(snapshot.constellation_id, snapshot.name, generation=snapshot.generation)
    it.version = snapshot.version
    for task in snapshot.tasks:
        it.insert_task(task)
    for line in snapshot.lines:
        it.insert_line(line)
    it.removed_tasks = set(snapshot.removed_tasks)
    it.removed_lines = set(snapshot.removed_lines)
    it.unevaluated = dict.fromkeys(snapshot.unevaluated)
    it.dirty = dict.fromkeys(snapshot.dirty, True)
    return it
