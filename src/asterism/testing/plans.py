"""The plan of a world: its submission, and a fleet and a script for the Python functions that are tasks of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from asterism.constellation.machine.events import ConstellationSubmitted, RunOptions
from asterism.constellation.model.documents import PlanDocument, parse_plan
from asterism.constellation.model.parameters import values_of
from asterism.constellation.python.definition import Constellation
from asterism.constellation.requirements import sources_of
from asterism.devices.model.attempt import TaskError
from asterism.devices.port import Attempt, AttemptError
from asterism.devices.skills.skill import SkillContext, contract_of
from asterism.devices.skills.source import is_importable, load, rebase
from asterism.devices.workers.pool import RESULT_BYTES
from asterism.devices.workers.thread import missing_text, registered_function
from asterism.devices.workers.worker import call, pack_result
from asterism.engine.kernel.profile import HERE, AgentProfile
from asterism.errors import InvalidInput
from asterism.testing.device import Behaviour, Script
from asterism.testing.validation import check_one_of, check_type

AnyPlan = Constellation | PlanDocument | Mapping[str, Any]
"""A constellation in Python, a plan, or its JSON value."""


def plan_of(given: AnyPlan) -> PlanDocument:
    """Return the plan. Raises InvalidInput."""
    if isinstance(given, Constellation):
        return given.plan()
    return given if isinstance(given, PlanDocument) else parse_plan(given)


def submission(
    given: AnyPlan | None, params: Mapping[str, Any], fleet: Iterable[AgentProfile], request: str, options: RunOptions | None
) -> ConstellationSubmitted:
    """Return the first event of the run of a plan, with the values of its parameters. Raises InvalidInput."""
    plan = None if given is None else plan_of(given)
    fleet = tuple(fleet)
    if plan and next(sources_of(plan), None) and not any(it.device_id == HERE for it in fleet):
        raise InvalidInput(
            "tasks of the plan are Python functions; import fleet_of and script_of from asterism.testing.plans, "
            "and make the world with fleet=fleet_of(plan), script=script_of(plan)"
        )
    if plan and isinstance(given, Constellation):
        absolute = _absolute(given, plan)
        fleet = tuple(_without(it, absolute.values()) if it.device_id == HERE else it for it in fleet)
    values = values_of(plan.params if plan else {}, params) if params else {}
    return ConstellationSubmitted(request=request, fleet=fleet, options=options or RunOptions(), plan=plan, params=values)


def fleet_of(plan: AnyPlan) -> list[AgentProfile]:
    """Return a fleet with the device ``here``, whose skills are the functions of a plan.

    Those of a constellation in Python are there with relative and absolute sources: a flow agent with this plan has
    absolute ones. For an agent whose plan is a file, give the ``plan`` of its class.

    Raises:
        InvalidInput: the plan is invalid, or a function of it cannot be imported or performed.
    """
    found = _functions(plan)
    skills = tuple(msgspec.structs.replace(contract_of(function).skill, name=source) for source, function in found.items())
    return [AgentProfile(device_id=HERE, kind="here", concurrency=4, skills=skills)]


Replacement = Behaviour | Callable[[Attempt], Behaviour | None]
"""Behaviour of a function, or a function of the attempt that returns one, or None to call the function itself."""


def script_of(plan: AnyPlan, behaviours: Mapping[str, Replacement] = {}) -> Script:
    """Return a script that calls the functions of a plan, in no virtual time.

    Args:
        plan: the plan.
        behaviours: replacements of functions, by the names of the functions; see ``Replacement``.

    Raises:
        InvalidInput: the plan is invalid, it has no function of a name in ``behaviours``, or an async function has no
            behaviour.
    """
    functions = _functions(plan)
    names = {source: function.__name__ for source, function in functions.items()}
    replaced = {source: behaviours[name] for source, name in names.items() if name in behaviours}
    for name, behaviour in behaviours.items():
        check_one_of("behaviours", name, dict.fromkeys(names.values()))
        if not callable(behaviour):
            check_type(f"behaviours[{name!r}]", behaviour, Behaviour, "or give a function of the attempt")
    for source, function in functions.items():
        if source not in replaced and inspect.iscoroutinefunction(function):
            raise InvalidInput(f"{source} is async, and a script cannot await it; give it a Behaviour")

    def script(attempt: Attempt) -> Behaviour:
        given = replaced.get(attempt.skill)
        behaviour = given(attempt) if callable(given) else given
        return _called(functions[attempt.skill], attempt) if behaviour is None else behaviour

    return script


def _called(function: Callable[..., Any], attempt: Attempt) -> Behaviour:
    if inspect.iscoroutinefunction(function):
        return Behaviour(breaks=f"{attempt.skill} is async, and a script cannot await it; return a Behaviour for each attempt")
    context = SkillContext(key=attempt.key, attempt=attempt.number, task_id=attempt.task_id, results=attempt.results)
    try:
        packed, _ = pack_result(call(function, contract_of(function), attempt, context), RESULT_BYTES)
    except AttemptError as error:
        return Behaviour(error=TaskError(code=error.code, message=error.message))
    return Behaviour(result=msgspec.json.decode(packed))


def _functions(given: AnyPlan) -> dict[str, Callable[..., Any]]:
    """Return the functions of a plan by their sources; those of a constellation in Python count from its folder."""
    folder = given.folder if isinstance(given, Constellation) else Path.cwd()
    plan = plan_of(given)
    found = dict[str, Callable[..., Any]]()
    for source in dict.fromkeys(sources_of(plan)):
        function = _loaded(source, folder) if is_importable(source) else registered_function(source)
        if function is None:
            raise InvalidInput(missing_text(source))
        found[source] = function
    if isinstance(given, Constellation):
        found |= {absolute: found[source] for source, absolute in _absolute(given, plan).items()}
    return found


def _absolute(constellation: Constellation, plan: PlanDocument) -> dict[str, str]:
    """Return the absolute source of each function whose source in the plan is relative, by that one."""
    absolute = {source: rebase(source, constellation.folder) for source in sources_of(plan)}
    return {source: it for source, it in absolute.items() if it not in absolute}


def _without(profile: AgentProfile, names: Collection[str]) -> AgentProfile:
    """Return a profile without the skills of these names."""
    return msgspec.structs.replace(profile, skills=tuple(it for it in profile.skills if it.name not in names))


def _loaded(source: str, folder: Path) -> Callable[..., Any]:
    try:
        return load(source, folder, plain=True)
    except InvalidInput as error:
        raise InvalidInput(f"{error} (searched from the folder {folder})") from error
