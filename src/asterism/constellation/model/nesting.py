"""Nested constellations: the whole plan is checked before any task of it starts.

Errors in a nested constellation are named by their path: ``outer/inner``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

import msgspec

from asterism.constellation.model.batch import apply_edits
from asterism.constellation.model.condition import syntax_error
from asterism.constellation.model.condition_names import check_condition, check_types, check_when
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import MAX_NESTED, PlanDocument
from asterism.constellation.model.edits import AddTask, Applied, BuildConstellation, Edit, EditRefused, UpdateTask
from asterism.constellation.model.parameters import values_of
from asterism.constellation.model.resolution import best_match, check_line, check_task, fields_of, skill_for
from asterism.constellation.model.specs import task_of
from asterism.constellation.model.task import TaskStar
from asterism.devices.model.references import RUN, references
from asterism.engine.kernel.data import round_trip
from asterism.engine.kernel.phrase import phrase
from asterism.engine.kernel.profile import AgentProfile, Fleet
from asterism.errors import InvalidInput, did_you_mean

Match = Callable[[str, str, AgentProfile], str | None]
"""``(path of the task, words, profile) -> name of the skill that clearly matches``; empty for none,
None where only an exact name counts."""


class TaskCheck(Protocol):
    """A further check of each task that a batch affects, nested ones included; it raises EditRefused."""

    def __call__(self, task: TaskStar, *, is_written: bool) -> None:
        """Check a task; ``is_written`` is True if the batch wrote it."""


def nested_plan(task: TaskStar) -> PlanDocument:
    """Return a task's nested plan; an empty one if it has none."""
    return msgspec.convert(task.constellation or {}, PlanDocument)


def with_skills(plan: PlanDocument, constellation: TaskConstellation) -> PlanDocument:
    """Return a plan with the skills that its tasks resolved to, so that exactly it is approved and guarded."""
    found = constellation.tasks
    tasks = (
        msgspec.structs.replace(
            spec, skill=found[spec.task_id].resolved_skill or spec.skill, constellation=found[spec.task_id].constellation
        )
        for spec in plan.tasks
    )
    return msgspec.structs.replace(plan, tasks=tuple(tasks))


def affected(applied: Applied, constellation: TaskConstellation) -> dict[str, None]:
    """Return the ids of the tasks whose requests a batch may change. O(n + e).

    These are the tasks that it wrote, those whose dependencies it changed, all after them, and the
    handlers that refer to one of them, or to the end of the run: each task may change that.
    """
    return reached(constellation, (*applied.tasks, *applied.targets), applied.removed_tasks)


def reached(constellation: TaskConstellation, changed: Iterable[str], removed: Collection[str] = ()) -> dict[str, None]:
    """Return the ids of changed tasks, and of those whose requests the change may change. O(n + e)."""
    found: dict[str, None] = {}
    todo = [*changed]
    while todo:  # bounded by the number of tasks
        task_id = todo.pop()
        if task_id not in found:
            found[task_id] = None
            todo += constellation.successors(task_id)
        if not todo:
            sources = {RUN, *found, *removed}
            todo = [it for it, named in constellation.referring.items() if it not in found and not named.isdisjoint(sources)]
    return found


def first_match(_: str, words: str, profile: AgentProfile) -> str:
    """Return the matching skill without recording it, for callers without a journal."""
    return best_match(words, profile)


def exact_names(edits: Iterable[Edit], match: Match = first_match) -> Match:
    """Return a match that accepts only exact names in what these edits write.

    Other tasks keep the match by their words, which a planner's plan may have used.
    """
    written: set[str] = set()
    for edit in edits:
        if isinstance(edit, AddTask):
            written.add(edit.task.task_id)
        elif isinstance(edit, BuildConstellation):
            written.update(task.task_id for task in edit.plan.tasks)
        elif isinstance(edit, UpdateTask) and edit.changes.keys() & {"name", "device", "skill", "constellation"}:
            written.add(edit.task_id)
    return lambda path, words, profile: None if path.partition("/")[0] in written else match(path, words, profile)


def check_plan(plan: PlanDocument, fleet: Fleet, path: str = "") -> None:
    """Check what a person's plan names: skills by their exact names, the ends of dependencies, and conditions.

    The run checks all of a plan; here a mistake is told with what was meant.

    Raises:
        EditRefused: a name is unknown, or a condition does not parse.
    """
    ids = [task.task_id for task in plan.tasks]
    for line in plan.dependencies:
        where = f"dependency {path}{line.line_id}"
        for end, task_id in (("from", line.source), ("to", line.target)):
            if task_id not in ids:
                raise EditRefused("unknown_task", where, f"{end}: there is no task {task_id!r}{did_you_mean(task_id, ids)}")
        if line.condition:
            check_types(line.condition, where)
            if why := syntax_error(line.condition):
                raise EditRefused("bad_content", where, why)
    fields: dict[str, Collection[str] | None] = {}
    for task in plan.tasks:
        if task.when:
            check_when(task, plan, f"task {path}{task.task_id}.when")
        if task.constellation is not None:
            check_plan(msgspec.convert(task.constellation, PlanDocument), fleet, f"{path}{task.task_id}/")
            skill = ""
        else:
            skill = skill_for(msgspec.structs.replace(task, task_id=f"{path}{task.task_id}"), fleet, lambda *_: None)
        fields[task.task_id] = fields_of(msgspec.structs.replace(task_of(task), resolved_skill=skill), fleet)
    for line in plan.dependencies:
        if line.condition:
            check_condition(line, plan, fields[line.source], f"dependency {path}{line.line_id}")


def apply_on_fleet(
    constellation: TaskConstellation,
    edits: Iterable[Edit],
    fleet: Fleet,
    match: Match = first_match,
    *,
    inputs: Collection[str] = (),
    params: Collection[str] = (),
    partial: bool = False,
    restore_by_id: bool = False,
    extended: bool = True,
    conditions_use_params: bool = True,
    check_each: TaskCheck | None = None,
) -> Applied:
    """Apply a batch of edits and check it against the fleet, as a whole or not at all.

    Args:
        constellation: changed in place.
        edits: the edits, in order.
        fleet: profiles by device id.
        match: finds a skill by words; called only if no name matches.
        inputs: names that ``${inputs.…}`` may refer to.
        params: names that ``${params.…}`` may refer to.
        partial: True if more edits of the same batch follow, so that arguments and references are
            not checked yet.
        restore_by_id: as in ``apply_edits``.
        extended: False for entries of rules before ``${task.error}`` and reserved ids.
        conditions_use_params: False for entries of rules before ``params`` in conditions.
        check_each: further check of each affected task; with it, the skills that nested tasks resolve to
            are written in their plan.

    Raises:
        EditRefused: an edit is invalid; the constellation is unchanged.
    """

    def check(applied: Applied) -> None:
        if partial:
            _look_up(applied, constellation, fleet, match)
        else:
            check_applied(
                applied,
                constellation,
                fleet,
                match,
                inputs=inputs,
                params=params,
                extended=extended,
                conditions_use_params=conditions_use_params,
                check_each=check_each,
            )

    return apply_edits(constellation, edits, check, partial=partial, restore_by_id=restore_by_id, extended=extended)


def check_applied(
    applied: Applied,
    constellation: TaskConstellation,
    fleet: Fleet,
    match: Match,
    *,
    inputs: Collection[str] = (),
    params: Collection[str] = (),
    path: str = "",
    extended: bool = True,
    conditions_use_params: bool = True,
    check_each: TaskCheck | None = None,
) -> None:
    """Resolve the skills of touched tasks and check the batch against the fleet.

    Nested plans are checked, too. ``path`` is that of the constellation, ending in a slash; empty for
    the outermost. The other arguments are as in ``apply_on_fleet``.

    Raises:
        EditRefused: a check failed; its subject begins with the path.
    """
    touched = _look_up(applied, constellation, fleet, match, path)
    for task in touched:
        check_task(task, constellation, fleet, inputs, params=params, extended=extended, conditions_use_params=conditions_use_params)
        if check_each is not None:
            check_each(task, is_written=True)
        if task.constellation is not None:
            _check_nested(
                task,
                fleet,
                match,
                f"{path}{task.task_id}/",
                extended=extended,
                conditions_use_params=conditions_use_params,
                check_each=check_each,
            )
    if check_each is not None:
        written = set(applied.tasks)
        for task_id in affected(applied, constellation):
            if task_id not in written and not constellation.tasks[task_id].settled:
                check_each(constellation.tasks[task_id], is_written=False)
    lines = [line for line_id in applied.lines if (line := constellation.lines[line_id]).condition]
    lines += [line for task in touched for line in constellation.lines_out(task.task_id) if line.condition]
    for line in lines:
        check_line(line, constellation, fleet, params if conditions_use_params else ())


def _look_up(applied: Applied, constellation: TaskConstellation, fleet: Fleet, match: Match, path: str = "") -> list[TaskStar]:
    """Resolve the skills of the tasks that a batch has touched, and return these tasks."""
    touched = [constellation.tasks[task_id] for task_id in applied.tasks]
    for task in touched:
        if task.resolved_skill and not task.skill:
            continue  # found by its words before: its device may have other skills now, and what was shown then holds
        task.resolved_skill = skill_for(task, fleet, lambda words, profile, task=task: match(path + task.task_id, words, profile))  # type: ignore[misc]
    return touched


def _check_nested(
    task: TaskStar, fleet: Fleet, match: Match, path: str, *, extended: bool, conditions_use_params: bool, check_each: TaskCheck | None
) -> None:
    if path.count("/") >= MAX_NESTED:
        raise EditRefused("too_many", task.task_id, phrase("nested_too_deep", most=MAX_NESTED))
    nested, plan = TaskConstellation(), nested_plan(task)
    _check_params(task, plan)

    def check(applied: Applied) -> None:
        check_applied(
            applied,
            nested,
            fleet,
            match,
            inputs=task.inputs,
            params=plan.params,
            path=path,
            extended=extended,
            conditions_use_params=conditions_use_params,
            check_each=check_each,
        )

    try:
        apply_edits(nested, [BuildConstellation(plan=msgspec.structs.replace(plan, params={}))], check, extended=extended)
    except EditRefused as refused:
        raise refused.replaced(what=f"{task.task_id}/{refused.refusal.what}") from None
    if check_each is not None and (resolved := with_skills(plan, nested)) != plan:
        task.constellation = round_trip(resolved)


def _check_params(task: TaskStar, plan: PlanDocument) -> None:
    """Check that the inputs of a task fill the parameters of its nested plan; references are checked when it starts."""
    given = {name: value for name, value in task.inputs.items() if name in plan.params}
    literal = {name: value for name, value in given.items() if next(references(value), None) is None}
    try:
        values_of({name: it for name, it in plan.params.items() if name not in given or name in literal}, literal)
    except InvalidInput as error:
        raise EditRefused("bad_argument", f"{task.task_id}.inputs", str(error)) from None
