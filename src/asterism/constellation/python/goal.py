"""The goal of a run, a request in words or a plan, and its rehearsal on a fleet, which writes nothing."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.nesting import check_plan
from asterism.constellation.model.parameters import PLACEHOLDERS, missing_of, value_of_text, values_of
from asterism.constellation.planner.plan_file import plan_path, read_plan
from asterism.constellation.planner.port import Planner, PlannerRequest, PlanningUnavailable
from asterism.constellation.python.definition import Constellation
from asterism.constellation.requirements import check_usable, devices_of, fleet_with, rebase_plan, sources_of, with_causes
from asterism.devices.attempts.attempt_files import local_file
from asterism.devices.fleet.python_fleet import Fleet as PythonFleet
from asterism.devices.kinds.here import HereDevice
from asterism.devices.port import Device
from asterism.devices.skills.source import imported
from asterism.devices.workers.pool import WorkerPool
from asterism.engine.kernel.data import FILE
from asterism.engine.kernel.permissions import ALL
from asterism.engine.kernel.profile import HERE, Fleet
from asterism.engine.kernel.run import Run
from asterism.errors import InvalidInput, did_you_mean


class Goal(msgspec.Struct, frozen=True):
    """The goal of a run.

    Attributes:
        title: title of the run, one line.
        request: request in words, or the name of the plan.
        plan: the plan; None if the run plans the request.
        params: values of the plan's parameters, by name; those with a default may be missing.
        files: paths of the files among them, by digest.
    """

    title: str
    request: str
    plan: PlanDocument | None = None
    params: dict[str, Any] = {}
    files: dict[str, str] = {}


AnyGoal = Goal | Constellation | PlanDocument | Path | str
"""A goal, or what one is made of: a constellation, a plan, a request in words, the path of a plan file, or the name of a
constellation as ``file.py:name``, ``package.module:name``, or ``file.py`` if it has only one."""
_DEFINED = re.compile(r"(?P<place>.+\.py|[^\s:]+\.\w+):(?P<name>[A-Za-z_]\w*)")
_NAMED_AS_PYTHON = re.compile(r"\S+\.py")


def goal_of(given: AnyGoal, params: Mapping[str, Any] = {}) -> Goal:
    """Return the goal for anything that one is made of, with values of its plan's parameters.

    Raises:
        InvalidInput: the plan file or the constellation does not exist, or is invalid.
    """
    goal = _goal_of(given)
    if params and goal.plan is None:
        raise InvalidInput(f"a request in words has no parameters, so {min(params)!r} means nothing; write its value into the request")
    return with_files(msgspec.structs.replace(goal, params={**goal.params, **params}) if params else goal)


def with_files(goal: Goal) -> Goal:
    """Return a goal whose parameters of type ``file`` have values that name files, where they had paths.

    Raises:
        InvalidInput: a file cannot be read.
    """
    wanted = {name for name, param in goal.plan.params.items() if param.type == "file"} if goal.plan else set()
    paths = {name: Path(it) for name, it in goal.params.items() if name in wanted and isinstance(it, str | Path)}
    values = {name: local_file(path) for name, path in paths.items()}
    files = {values[name][FILE]: str(path.absolute()) for name, path in paths.items()}
    return msgspec.structs.replace(goal, params={**goal.params, **values}, files={**goal.files, **files}) if paths else goal


def with_texts(goal: Goal, texts: Mapping[str, str]) -> Goal:
    """Return a goal with the values of its plan's parameters, as a person has written them.

    Args:
        goal: the goal; one without a plan has no parameters.
        texts: by name: text for ``str``, the path of a file for ``file``, JSON for other types.

    Raises:
        InvalidInput: a value is of another type, or of an unknown name.
    """
    params = goal.plan.params if goal.plan else {}
    for name in texts:
        if name not in params:
            has = f"; it has {', '.join(params)}" if params else ""
            raise InvalidInput(f"the plan has no parameter {name!r}{did_you_mean(name, params) or has}")
    values = {name: text if params[name].type == "file" else value_of_text(name, params[name], text) for name, text in texts.items()}
    return with_files(msgspec.structs.replace(goal, params={**goal.params, **values}))


def _goal_of(given: AnyGoal) -> Goal:
    match given:
        case Goal():
            return given
        case Constellation():
            return _planned_goal(given.plan(Path.cwd()), given.name)
        case PlanDocument():
            return _planned_goal(given, "plan")
        case str():
            return _named_goal(given)
        case Path():
            goal = _named_goal(str(given))
            if goal.plan is None:
                raise InvalidInput(f"{given}: not a plan file; its name ends in .json, .yaml or .yml")
            return goal
        case _:
            raise InvalidInput(
                "a run is of a Constellation, a request in words, the path of a plan file or a plan (Constellation.from_plan), "
                f"not of {given!r}"
            )


def _named_goal(named: str) -> Goal:
    if path := plan_path(named):
        return _planned_goal(rebase_plan(read_plan(path), path.absolute().parent, Path.cwd()), str(path))
    defined = _DEFINED.fullmatch(named)
    if defined and (" " not in defined["place"] or Path(defined["place"]).is_file()):
        return goal_of(_imported(defined["place"], defined["name"]))
    if named.endswith(".py") and Path(named).is_file():
        return goal_of(_only_one(named))
    if _NAMED_AS_PYTHON.fullmatch(named):
        raise InvalidInput(f"{named}: there is no such file (looked in {Path.cwd()})")
    if not named.strip():
        raise InvalidInput("the request is empty; say what to do, or name a plan file")
    return Goal(title=named, request=named)


def _imported(place: str, name: str) -> Constellation:
    """Return the constellation of a Python file or module. Raises InvalidInput."""
    module = imported(place, Path.cwd())
    found = getattr(module, name, None)
    if not isinstance(found, Constellation):
        there = _names_in(module)
        what = f"{name} is not a constellation but a {type(found).__name__}" if hasattr(module, name) else f"there is no {name}"
        raise InvalidInput(f"{place}: {what}{did_you_mean(name, there) or '; its constellations are: ' + (', '.join(there) or 'none')}")
    return found


def _only_one(place: str) -> Constellation:
    """Return the constellation of a Python file that has one. Raises InvalidInput."""
    module = imported(place, Path.cwd())
    names = _names_in(module)
    found: dict[int, Constellation] = {id(it): it for it in (vars(module)[name] for name in names)}
    if not found:
        raise InvalidInput(f"{place} has no constellation; make one at its top level: nightly = Constellation(…)")
    if len(found) > 1:
        raise InvalidInput(f"{place} has {len(found)} constellations; name one: {', '.join(f'{place}:{name}' for name in names)}")
    return next(iter(found.values()))


def _names_in(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Constellation)]


def _planned_goal(plan: PlanDocument, name: str) -> Goal:
    return Goal(title=plan.name or name, request=plan.name or name, plan=plan)


def absolute_name(named: str) -> str:
    """Return what names a goal from every folder: the path of its file made absolute; a request in words or a module as it is."""
    if path := plan_path(named):
        return str(path.absolute())
    defined = _DEFINED.fullmatch(named)
    if defined and defined["place"].endswith(".py"):
        return f"{Path(defined['place']).absolute()}:{defined['name']}"
    return str(Path(named).absolute()) if named.endswith(".py") and Path(named).is_file() else named


def is_python(named: str) -> bool:
    """Return True if what names a goal is a constellation in Python."""
    return plan_path(named) is None and (_DEFINED.fullmatch(named) is not None or (named.endswith(".py") and Path(named).is_file()))


def check_fleet_given(goal: Goal, fleet_file: Path | None, command: str, named: str = "") -> None:
    """Check that a command has a fleet file if its goal needs one.

    Args:
        goal: the goal.
        fleet_file: the fleet file; None if none was given.
        command: name of the command.
        named: what the goal was made of; a fleet in a Python file is not used by commands, and the error says so.

    Raises:
        InvalidInput: it has none, and the goal is a request in words, or has tasks on other devices than ``here``.
    """
    if fleet_file is None and needs_fleet(goal):
        found = _fleet_in(named)
        unused = f" The fleet {found!r} in {named} is for programs (asterism.run); a command reads a fleet file." if found else ""
        other = next((it for it in devices_of(goal.plan) if it not in ("", HERE)), "a device") if goal.plan else ""
        why = f"the plan has tasks on {other}" if other else "a request in words is planned with the skills of its devices"
        raise InvalidInput(f'Command "{command}" needs --fleet FILE: {why}.{unused} See `asterism {command} --help`.')


def needs_fleet(goal: Goal) -> bool:
    """Return True if a goal is a request in words, or has tasks on other devices than ``here``."""
    return goal.plan is None or bool(set(devices_of(goal.plan)) - {HERE})


def _fleet_in(named: str) -> str:
    """Return the name of a fleet in the Python file or module of a constellation; empty if there is none."""
    defined = _DEFINED.fullmatch(named)
    if not defined and not named.endswith(".py"):
        return ""
    module = imported(defined["place"] if defined else named, Path.cwd())
    return next((name for name, value in vars(module).items() if isinstance(value, PythonFleet)), "")


async def fleet_for(goal: Goal, fleet: Fleet, here: HereDevice | None = None) -> Fleet:
    """Return a fleet for a goal: with the device ``here`` if functions are tasks of its plan.

    Args:
        goal: the goal; sources in its plan are relative to the current folder.
        fleet: profiles of the devices, by id.
        here: describes the functions; by default one that is opened only for this.

    Raises:
        InvalidInput: a function cannot be imported or performed; the text names it.
    """
    if here is None and goal.plan and next(sources_of(goal.plan), None) is not None:
        with tempfile.TemporaryDirectory(prefix="asterism-") as folder:
            async with WorkerPool(Path(folder)) as pool:
                return await fleet_with(goal.plan, fleet, HereDevice(lambda: pool))
    return await fleet_with(goal.plan, fleet, here)


def params_of(goal: Goal) -> dict[str, Any]:
    """Return the values of all parameters of a goal's plan.

    Raises:
        InvalidInput: a value is missing, of another type, or of an unknown name.
    """
    return values_of(goal.plan.params if goal.plan else {}, goal.params)


async def rehearse(
    goal: Goal, fleet: Fleet, planner: Planner, devices: Mapping[str, Device] = {}
) -> tuple[PlanDocument, TaskConstellation]:
    """Return the plan of a goal, and the constellation with which its run would start.

    The planner plans the request of a goal without a plan.

    Args:
        goal: the goal.
        fleet: profiles of the devices, by id.
        planner: the planner.
        devices: the devices, by id; those that the plan uses are asked whether they are there.

    Raises:
        InvalidInput: planning failed, or the plan cannot run on this fleet; the text says why.
    """
    plan = goal.plan or await _planned(goal.request, fleet, planner, devices)
    await check_usable(plan, devices)
    return plan, rehearse_plan(goal if goal.plan else msgspec.structs.replace(goal, plan=plan), fleet, is_written=goal.plan is not None)


def rehearse_plan(goal: Goal, fleet: Fleet, *, is_written: bool = True) -> TaskConstellation:
    """Return the constellation with which a run of a goal would start, for a goal with a plan.

    Args:
        goal: the goal.
        fleet: profiles of the devices.
        is_written: True for a plan whose names are exact.

    Raises:
        InvalidInput: the plan cannot run on this fleet; the text says why.
    """
    plan = goal.plan or PlanDocument()
    missing = {name: PLACEHOLDERS[plan.params[name].type] for name in missing_of(plan.params, goal.params)}
    params = values_of(plan.params, {**goal.params, **missing})
    rehearsal = Run(CONSTELLATION_AGENT, "plan")
    try:
        if is_written:
            check_plan(plan, fleet)
        rehearsal.take(
            ConstellationSubmitted(request=goal.request, fleet=tuple(fleet.values()), plan=plan, params=params),
            at=0.0,
            actor="",
            permissions=ALL,  # the submission itself is refused where its sender may not do what a local user may
        )
    except EditRefused as refused:
        raise InvalidInput(f"the plan cannot be run on this fleet: {refused}") from refused
    constellation: TaskConstellation = rehearsal.memory.constellation
    return constellation


async def _planned(request: str, fleet: Fleet, planner: Planner, devices: Mapping[str, Device]) -> PlanDocument:
    try:
        proposal = await planner.propose(PlannerRequest(key="plan", mode="CREATION", request=request, fleet=fleet))
    except PlanningUnavailable as unavailable:
        raise with_causes(InvalidInput(str(unavailable)), devices) from None
    if proposal.plan is None:
        raise with_causes(InvalidInput(f"the planner gave up: {proposal.thought}"), devices)
    return proposal.plan
