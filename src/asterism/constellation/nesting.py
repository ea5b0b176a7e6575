"""A constellation within a constellation: the whole plan is checked before any of it starts.

What is found there is named by the way to it: ``outer/inner``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from asterism.constellation.batch import apply_edits
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.documents import MAX_NESTED, PlanDocument
from asterism.constellation.edits import Applied, BuildConstellation, EditRefused
from asterism.constellation.profile import AgentProfile, Fleet
from asterism.constellation.resolution import check_line, check_task, skill_for
from asterism.constellation.task import TaskStar

Match = Callable[[str, str, AgentProfile], str]
"""``(path of the task, words, profile) -> name of the skill the words clearly speak of``; empty for none."""


def nested_plan(task: TaskStar) -> PlanDocument:
    """The plan that carries a task out; an empty one for a task that has none."""
    return msgspec.convert(task.constellation or {}, PlanDocument)


def check_applied(
    applied: Applied, constellation: TaskConstellation, fleet: Fleet, match: Match, *, inputs: Collection[str] = (), path: str = ""
) -> None:
    """Look up the skills of what a batch has touched, and check it against the fleet, nested constellations included.

    Args:
        applied: the batch.
        constellation: what it was applied to; its tasks' ``resolved_skill`` is written.
        fleet: profiles by device id.
        match: how words find a skill.
        inputs: names that ``${inputs.…}`` may refer to.
        path: of the constellation, ending in a slash; empty for the outermost.

    Raises:
        EditRefused: what it names begins with the path.
    """
    touched = [constellation.tasks[task_id] for task_id in applied.tasks]
    for task in touched:
        task.resolved_skill = skill_for(task, fleet, lambda words, profile, task=task: match(path + task.task_id, words, profile))  # type: ignore[misc]
    for task in touched:
        check_task(task, constellation, fleet, inputs)
        if task.constellation is not None:
            _check_nested(task, fleet, match, f"{path}{task.task_id}/")
    lines = [constellation.lines[line_id] for line_id in applied.lines]
    lines += [line for task in touched for line in constellation.lines_out(task.task_id)]
    for line in lines:
        check_line(line, constellation, fleet)


def _check_nested(task: TaskStar, fleet: Fleet, match: Match, path: str) -> None:
    if path.count("/") >= MAX_NESTED:
        raise EditRefused("too_many", task.task_id, f"more than {MAX_NESTED} constellations within each other")
    nested = TaskConstellation()

    def check(applied: Applied) -> None:
        check_applied(applied, nested, fleet, match, inputs=task.inputs, path=path)

    try:
        apply_edits(nested, [BuildConstellation(plan=nested_plan(task))], check)
    except EditRefused as refused:
        found = refused.refusal
        raise EditRefused(found.code, f"{task.task_id}/{found.what}", found.why) from None
