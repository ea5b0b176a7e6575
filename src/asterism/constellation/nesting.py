"""Nested constellations: the whole plan is checked before any task of it starts.

Errors in a nested constellation are named by their path: ``outer/inner``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from asterism.constellation.batch import apply_edits
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.documents import MAX_NESTED, PlanDocument
from asterism.constellation.edits import Applied, BuildConstellation, Edit, EditRefused
from asterism.constellation.profile import AgentProfile, Fleet
from asterism.constellation.resolution import best_match, check_line, check_task, skill_for
from asterism.constellation.task import TaskStar

Match = Callable[[str, str, AgentProfile], str]
"""``(path of the task, words, profile) -> name of the skill that clearly matches``; empty for
none."""


def nested_plan(task: TaskStar) -> PlanDocument:
    """Return a task's nested plan; an empty one if it has none."""
    return msgspec.convert(task.constellation or {}, PlanDocument)


def first_match(_: str, words: str, profile: AgentProfile) -> str:
    """Return the matching skill without recording it, for callers without a journal."""
    return best_match(words, profile)


def apply_on_fleet(
    constellation: TaskConstellation,
    edits: Iterable[Edit],
    fleet: Fleet,
    match: Match = first_match,
    *,
    inputs: Collection[str] = (),
    partial: bool = False,
    restore_by_id: bool = False,
) -> Applied:
    """Apply a batch of edits and check it against the fleet, as a whole or not at all.

    Args:
        constellation: changed in place.
        edits: the edits, in order.
        fleet: profiles by device id.
        match: finds a skill by words; called only if no name matches.
        inputs: names that ``${inputs.…}`` may refer to.
        partial: True if more edits of the same batch follow, so that arguments and references are
            not checked yet.
        restore_by_id: as in ``apply_edits``.

    Raises:
        EditRefused: an edit is invalid; the constellation is unchanged.
    """

    def check(applied: Applied) -> None:
        if partial:
            _look_up(applied, constellation, fleet, match)
        else:
            check_applied(applied, constellation, fleet, match, inputs=inputs)

    return apply_edits(constellation, edits, check, partial=partial, restore_by_id=restore_by_id)


def check_applied(
    applied: Applied, constellation: TaskConstellation, fleet: Fleet, match: Match, *, inputs: Collection[str] = (), path: str = ""
) -> None:
    """Resolve the skills of touched tasks and check the batch against the fleet.

    Nested plans are checked, too. ``path`` is that of the constellation, ending in a slash; empty for
    the outermost. The other arguments are as in ``apply_on_fleet``.

    Raises:
        EditRefused: a check failed; its subject begins with the path.
    """
    touched = _look_up(applied, constellation, fleet, match, path)
    for task in touched:
        check_task(task, constellation, fleet, inputs)
        if task.constellation is not None:
            _check_nested(task, fleet, match, f"{path}{task.task_id}/")
    lines = [line for line_id in applied.lines if (line := constellation.lines[line_id]).condition]
    lines += [line for task in touched for line in constellation.lines_out(task.task_id) if line.condition]
    for line in lines:
        check_line(line, constellation, fleet)


def _look_up(applied: Applied, constellation: TaskConstellation, fleet: Fleet, match: Match, path: str = "") -> list[TaskStar]:
    """Resolve the skills of the tasks that a batch has touched, and return these tasks."""
    touched = [constellation.tasks[task_id] for task_id in applied.tasks]
    for task in touched:
        task.resolved_skill = skill_for(task, fleet, lambda words, profile, task=task: match(path + task.task_id, words, profile))  # type: ignore[misc]
    return touched


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
