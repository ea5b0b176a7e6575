"""Resolution of a plan's tasks on a fleet: device, skill and arguments.

A task names a device and, optionally, a skill. Without one, the skill of the task's name is used.
A planner's task may also be matched by its words, if one skill of the device fits clearly; a plan
file and a live edit name their skills exactly. Agents accept natural language and need no skill, nor
does a task with a nested constellation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from asterism.constellation.model.condition import Condition, InputCondition
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.fan_out import item_id
from asterism.constellation.model.line import TaskStarLine, admits_failure
from asterism.constellation.model.secret_use import check_secrets
from asterism.constellation.model.skill_ranker import clear_match, rank
from asterism.constellation.model.task import TaskSpec, TaskStar, TaskStatus
from asterism.constellation.model.wait import EVENT
from asterism.devices.model.references import (
    ERROR,
    FAILED,
    INDEX,
    INPUTS,
    ITEM,
    PARAMS,
    RUN,
    RUN_FIELDS,
    SECRET,
    MissingReference,
    references,
    resolve,
    written_as,
)
from asterism.engine.kernel.data import is_file
from asterism.engine.kernel.phrase import phrase
from asterism.engine.kernel.profile import HERE, JSON_TYPES, AgentProfile, Fleet, Skill, skill_of

REPORTED = ("summary", "total_tasks", "completed", "failed", "skipped", "cancelled", "results")
"""Fields of the result of a task with a nested constellation."""
NOTHING: Mapping[str, Any] = {}
NEAREST = 3
"""Number of similar skills that a refusal names."""


def best_match(words: str, profile: AgentProfile) -> str:
    """Return the name of the one skill that clearly matches the words; empty without one."""
    match = clear_match(words, profile.skills)
    return match.name if match else ""


def skill_for(task: TaskStar | TaskSpec, fleet: Fleet, match: Callable[[str, AgentProfile], str | None] = best_match) -> str:
    """Return the name of a task's skill; empty on a device that accepts natural language.

    ``match`` finds a skill by words; it is called only if no name matches, and returns None where only
    an exact name counts.

    Raises:
        EditRefused: ``unknown_device`` or ``unknown_skill``, with similar skills; ``bad_content``
            for a device or skill next to a constellation.
    """
    if task.constellation is not None:
        if task.device or task.skill:
            raise EditRefused("bad_content", task.task_id, phrase("nested_has_device"))
        return ""
    if task.wait is not None:
        return ""
    profile = fleet.get(task.device)
    if profile is None:
        raise EditRefused("unknown_device", task.task_id, phrase("unknown_device", device=task.device, fleet=list(fleet)))
    if task.skill:
        if profile.skill(task.skill) is None:
            why = phrase("no_skill", device=profile.device_id, skill=task.skill, nearest=_nearest(task.skill, profile))
            raise EditRefused("unknown_skill", task.task_id, why)
        return task.skill
    if profile.natural_language:
        return ""
    if profile.skill(task.name) is not None:
        return task.name
    words = f"{task.name.replace('_', ' ')} {task.description}".strip()
    matched = match(words, profile)
    if matched is None:
        names, nearest = [skill.name for skill in profile.skills], _nearest(words, profile)
        why = phrase("no_skill_of_name", device=profile.device_id, name=task.name, skills=names, nearest=nearest)
        raise EditRefused("unknown_skill", task.task_id, why)
    if not matched:
        why = phrase("no_skill_fits", device=profile.device_id, words=words, nearest=_nearest(words, profile))
        raise EditRefused("unknown_skill", task.task_id, why)
    return matched


def _nearest(words: str, profile: AgentProfile) -> list[str]:
    return [found.skill.name for found in rank(words, profile.skills)][:NEAREST] or [skill.name for skill in profile.skills[:NEAREST]]


def check_task(
    task: TaskStar,
    constellation: TaskConstellation,
    fleet: Fleet,
    inputs: Collection[str] = (),
    *,
    params: Collection[str] = (),
    extended: bool = True,
    conditions_use_params: bool = True,
) -> None:
    """Check a task's inputs against its skill, and its references against the results they read.

    ``inputs`` and ``params`` are the names that ``${inputs.…}`` and ``${params.…}`` may refer to. Without ``extended``, as for entries of
    earlier rules, ``${task.error}`` is a field like any other; without ``conditions_use_params``, ``when`` has only inputs.

    Raises:
        EditRefused: ``unknown_argument``, ``bad_argument`` (wrong type, or missing) or
            ``bad_reference``.
    """
    skill = _skill_of(task, fleet)
    if skill is not None:
        check_inputs(task.task_id, task.inputs, skill)
        _check_complete(task, skill, constellation, fleet)
    if task.env or task.folder:
        _check_has_process(task, fleet)
    if task.when or task.wait:
        _check_when(task, skill, params if conditions_use_params else ())
    check_secrets(task, constellation, fleet)
    for source, path in references(task.referring_values):
        if source == INPUTS:
            if not path or path[0] not in inputs:
                why = phrase("not_an_input", reference=written_as(source, path), inputs=list(inputs))
                raise EditRefused("bad_reference", task.task_id, why)
            continue
        if source not in constellation.tasks and source in (ITEM, INDEX, SECRET):
            continue  # check_secrets has checked it; or its constellation has checked that the task has for_each
        if source not in constellation.tasks:
            _check_name(task.task_id, source, path, params if source == PARAMS else RUN_FIELDS)
            continue
        if constellation.tasks[source].for_each is not None and path and path != (ERROR,):
            _check_into_items(task.task_id, source, path)
            continue
        fields = fields_of(constellation.tasks[source], fleet)
        if path and fields is not None and path[0] not in fields:
            if extended and path == (ERROR,):
                _check_error(source, task, constellation)
                continue
            why = phrase("no_field", source=source, field=path[0], fields=sorted(fields))
            raise EditRefused("bad_reference", task.task_id, why)


def _check_into_items(task_id: str, source: str, path: tuple[str, ...]) -> None:
    if path[0] != FAILED and not path[0].isdigit():
        raise EditRefused("bad_reference", task_id, phrase("no_field_of_items", source=source, field=path[0]))


def _check_name(task_id: str, source: str, path: tuple[str, ...], names: Collection[str]) -> None:
    if path and path[0] in names:
        return
    why = phrase("unknown_name", reference=written_as(source, path), name=path[0] if path else "", names=list(names))
    raise EditRefused("bad_reference", task_id, why)


def _check_has_process(task: TaskStar, fleet: Fleet) -> None:
    """Check that a task with variables or a folder has a process of its own to set them in."""
    what = "env" if task.env else "folder"
    profile = fleet.get(task.device)
    if profile is not None and profile.child is not None:
        why = phrase("runs_of_their_own", what=what, device=task.device, kind=profile.kind)
    elif task.device == HERE and task.resolved_skill.startswith("<"):
        why = phrase("function_in_thread", what=what, function=task.resolved_skill)
    else:
        return
    raise EditRefused("bad_content", task.task_id, why)


def _check_when(task: TaskStar, skill: Skill | None, params: Collection[str]) -> None:
    known = dict.fromkeys((*task.inputs, *(skill.parameter_names() if skill else ())))
    usable = known.keys() | ({PARAMS} if params else set())
    for name in sorted(InputCondition(task.when).names - usable) if task.when else ():
        raise EditRefused("bad_reference", task.task_id, phrase("unknown_in_when", when=task.when, name=name, inputs=list(known)))
    match = task.wait.match if task.wait else ""
    for name in sorted(InputCondition(match).names - usable - {EVENT}) if match else ():
        raise EditRefused("bad_reference", task.task_id, phrase("unknown_in_match", match=match, name=name, known=[*known, EVENT]))


def _check_error(source: str, task: TaskStar, constellation: TaskConstellation) -> None:
    """Check that a task can start although the source has failed."""
    above = constellation.ancestors(task.task_id)
    for line in constellation.lines_out(source):
        if (line.target == task.task_id or line.target in above) and not admits_failure(line):
            raise EditRefused("bad_reference", task.task_id, phrase("error_never", source=source, line=line.line_id, type=line.type))


_ACCEPTED: Mapping[str, tuple[type, ...]] = {**JSON_TYPES, "integer": (int, str), "number": (int, float, str), "boolean": (bool, int, str)}
"""Accepted Python types for each JSON type; the device converts texts to numbers."""


def check_inputs(task_id: str, inputs: Mapping[str, Any], skill: Skill) -> None:
    """Check that a skill takes a task's inputs: that it has parameters of these names, of the types of these values.

    Raises:
        EditRefused: ``unknown_argument`` or ``bad_argument``.
    """
    properties = skill.parameters.get("properties", {})
    unknown = [name for name in inputs if name not in properties]
    if unknown and skill.parameters.get("additionalProperties") is not True:
        why = phrase("skill_takes", skill=skill.name, names=skill.parameter_names())
        raise EditRefused("unknown_argument", f"{task_id}.inputs.{unknown[0]}", why)
    for name, value in inputs.items():
        wanted = _ACCEPTED.get(str(properties.get(name, {}).get("type")))
        if is_file(value) and properties.get(name, {}).get("format") == "path":
            continue
        if wanted and not isinstance(value, wanted) and value is not None and next(references(value), None) is None:
            why = phrase("skill_takes_type", skill=skill.name, type=properties[name]["type"], given=type(value).__name__)
            raise EditRefused("bad_argument", f"{task_id}.inputs.{name}", why)


def _check_complete(task: TaskStar, skill: Skill, constellation: TaskConstellation, fleet: Fleet) -> None:
    """Refuse a task that lacks a required argument which nothing provides."""
    missing = [name for name in skill.required_names() if name not in task.inputs]
    if not missing:
        return
    offered = [fields_of(constellation.tasks[source], fleet) for source in constellation.predecessors(task.task_id)]
    unfilled = [name for name in missing if all(fields is not None and name not in fields for fields in offered)]
    if unfilled:
        raise EditRefused("bad_argument", f"{task.task_id}.inputs.{unfilled[0]}", phrase("skill_needs", skill=skill.name))


def check_line(line: TaskStarLine, constellation: TaskConstellation, fleet: Fleet, params: Collection[str] = ()) -> None:
    """Check the fields that a condition names against the output of its source's skill, if known.

    ``params`` are the names of the parameters that it may use.

    Raises:
        EditRefused: ``bad_reference``.
    """
    if not line.condition:
        return
    fields = fields_of(constellation.tasks[line.source], fleet)
    unknown = sorted(Condition(line.condition).fields - fields - ({PARAMS} if params else set())) if fields is not None else []
    if unknown and fields is not None:
        why = phrase("condition_field", condition=line.condition, field=unknown[0], source=line.source, fields=sorted(fields))
        raise EditRefused("bad_reference", line.line_id, why)


def _skill_of(task: TaskStar, fleet: Fleet) -> Skill | None:
    return skill_of(fleet, task.device, task.resolved_skill) if task.resolved_skill else None


def fields_of(task: TaskStar, fleet: Fleet) -> frozenset[str] | None:
    """Return the names of the fields of a task's result; None if they are not known."""
    if task.for_each is not None:
        return frozenset()  # a list
    if task.constellation is not None:
        return frozenset(REPORTED)
    skill = _skill_of(task, fleet)
    return skill.output_fields() if skill else None


def arguments_of(
    task: TaskStar,
    constellation: TaskConstellation,
    fleet: Fleet,
    inputs: Mapping[str, Any] | None = None,
    *,
    scopes: Mapping[str, Any] = NOTHING,
    extended: bool = True,
) -> dict[str, Any]:
    """Return the arguments of an attempt: the task's inputs with their references resolved.

    Missing arguments are taken by name from the results of direct predecessors; of several, the one
    created last wins. ``${inputs.…}`` reads from ``inputs``, and a name that is no task's from
    ``scopes``. A handler gets null for a missing value. ``extended`` is as for ``check_task``.

    Raises:
        MissingReference: a source ended without a result, or its result lacks the field.
    """
    value_of = _values(task, constellation, inputs, scopes, extended=extended)
    arguments: dict[str, Any] = resolve(task.inputs, value_of, lenient=task.role != "task")
    skill = _skill_of(task, fleet)
    wanted = [name for name in skill.parameter_names() if name not in arguments] if skill else []
    if wanted:
        offered: dict[str, Any] = {}
        for result in _results_before(task, constellation).values():
            if isinstance(result, Mapping):
                offered.update(result)
        arguments.update({name: offered[name] for name in wanted if name in offered})
    return arguments


def items_of(
    task: TaskStar, constellation: TaskConstellation, inputs: Mapping[str, Any] | None = None, *, scopes: Mapping[str, Any] = NOTHING
) -> Any:
    """Return the value of a task's ``for_each`` items, which may be no list; arguments and errors as for ``arguments_of``."""
    items = task.for_each.items if task.for_each else []
    return resolve(items, _values(task, constellation, inputs, scopes, extended=True), lenient=task.role != "task")


def wait_of(
    task: TaskStar, constellation: TaskConstellation, inputs: Mapping[str, Any] | None = None, *, scopes: Mapping[str, Any] = NOTHING
) -> Any:
    """Return the time until which a task waits, as written or as its reference names it; arguments and errors as for ``arguments_of``."""
    until = task.wait.until if task.wait else ""
    return resolve(until, _values(task, constellation, inputs, scopes, extended=True), lenient=task.role != "task")


def names_errors(task: TaskStar, constellation: TaskConstellation) -> bool:
    """Return True if a task refers to the error of a task, of an item or of the run, which it gets in words."""
    if (task.item_of or task.task_id) not in constellation.referring:
        return False
    named = references(task.referring_values)
    return any(source == RUN or (path and path[0] in (ERROR, FAILED)) for source, path in named)


def failed_items(task: TaskStar, constellation: TaskConstellation) -> list[dict[str, Any]]:
    """Return the failed items of a task, in order: ``{"index": …, "item": …, "error": …}``."""
    items = (constellation.tasks[item_id(task.task_id, index)] for index in range(task.items.total if task.items else 0))
    failed = (item for item in items if item.status in (TaskStatus.FAILED, TaskStatus.CANCELLED))
    return [{"index": item.index, "item": item.item, "error": item.error.words if item.error else ""} for item in failed]


def _values(
    task: TaskStar, constellation: TaskConstellation, inputs: Mapping[str, Any] | None, scopes: Mapping[str, Any], *, extended: bool
) -> Callable[[str, str], Any]:
    """Return the function that looks up what a task's references name."""

    def value_of(source: str, path: str) -> Any:
        if source == INPUTS:
            return inputs or {}
        found = constellation.tasks.get(source)
        if found is None and extended and source == SECRET:
            return {path: f"${{{SECRET}.{path}}}"}
        if found is None and source in scopes:
            return scopes[source]
        if extended and path == ERROR and found is not None and found.settled and not _has_error_field(found):
            return {ERROR: found.error.words if found.error else None}
        if found is not None and found.for_each is not None and found.settled and path.partition(".")[0] == FAILED:
            return {FAILED: failed_items(found, constellation)}
        if found is None or found.status is not TaskStatus.COMPLETED:
            if task.join == "any" and found and not found.settled:
                raise MissingReference(phrase("no_result_yet", task=source))
            raise MissingReference(phrase("ended_without_result" if found else "was_removed", task=source))
        return found.result

    return value_of


def _has_error_field(task: TaskStar) -> bool:
    return task.status is TaskStatus.COMPLETED and isinstance(task.result, Mapping) and ERROR in task.result


def predecessor_results(task: TaskStar, constellation: TaskConstellation) -> dict[str, Any]:
    """Return the JSON results of the completed direct predecessors by task id, oldest first.

    An item gets those of its task, without the list that it is an item of: as a whole for every item, that would cost
    O(n²).
    """
    found = _results_before(task, constellation)
    each = constellation.tasks[task.item_of].for_each if task.item_of else None
    if each is not None and isinstance(each.items, str):
        for source, _ in references(each.items):
            found.pop(source, None)
    return found


def _results_before(task: TaskStar, constellation: TaskConstellation) -> dict[str, Any]:
    before = sorted(constellation.predecessors(task.item_of or task.task_id), key=constellation.ordinal)
    return {source: found.result for source in before if (found := constellation.tasks[source]).status is TaskStatus.COMPLETED}


def fallback_devices(task: TaskStar, fleet: Fleet) -> list[str]:
    """Return the other devices with the same skill, in the order of the fleet."""
    if not task.resolved_skill:
        return []
    return [device for device, profile in fleet.items() if device != task.device and profile.skill(task.resolved_skill) is not None]
