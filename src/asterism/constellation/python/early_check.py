"""A check of a plan before its devices are opened, which takes seconds for a server: of everything but their skills."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.model.task import TaskSpec
from asterism.constellation.python.goal import Goal, rehearse_plan
from asterism.constellation.requirements import devices_of
from asterism.devices.fleet.fleet_file import declared_kinds
from asterism.engine.kernel.data import round_trip
from asterism.engine.kernel.profile import HERE, AgentProfile, Skill

SLOW = frozenset({"mcp", "a2a", "ssh"})
"""Kinds of devices that are opened over a connection."""


def check_before_opening(goal: Goal, fleet_file: Path | None) -> None:
    """Check the plan of a goal without its devices, if opening them takes long.

    Raises:
        InvalidInput: the fleet file is invalid, or the plan cannot run whatever skills the devices have.
    """
    if goal.plan is None or fleet_file is None:
        return
    kinds = declared_kinds(fleet_file)
    if not SLOW.isdisjoint(kinds.values()):
        _check_on(goal, goal.plan, kinds)


def needed_devices(plan: PlanDocument | None, fleet_file: Path | None) -> Collection[str] | None:
    """Return the devices that a plan uses; None if it may use any: without a plan, and with a loop or an agent.

    Raises:
        InvalidInput: the fleet file is missing, or is not TOML.
    """
    if plan is None or fleet_file is None:
        return None
    used, kinds = set(devices_of(plan)) - {HERE}, declared_kinds(fleet_file)
    return used if all(kinds.get(name, "agent") not in ("agent", "flow") for name in used) else None


def check_without_fleet(goal: Goal) -> None:
    """Check the plan of a goal for which no fleet is given, unless a device of it is still to be chosen.

    Raises:
        InvalidInput: the plan cannot run on any fleet.
    """
    if goal.plan is None:
        return
    devices = {spec.device for spec in goal.plan.all_tasks() if spec.constellation is None and spec.wait is None}
    if all(devices):
        _check_on(goal, goal.plan, devices - {HERE})


def _check_on(goal: Goal, plan: PlanDocument, kinds: Collection[str]) -> None:
    """Check the plan of a goal on these devices, as if they had every skill that it names."""
    tasks = list(plan.all_tasks())
    named = {device: {spec.skill for spec in tasks if spec.device == device and spec.skill} for device in (*kinds, HERE)}
    fleet = {device: _any_device(device, skills) for device, skills in named.items() if skills or device in kinds}
    rehearse_plan(msgspec.structs.replace(goal, plan=_without_when(plan)), fleet)


def _any_device(device: str, skills: set[str]) -> AgentProfile:
    """Return a device that has every skill, with any arguments."""
    open_ = tuple(Skill(name=name, parameters={"additionalProperties": True}) for name in sorted(skills))
    return AgentProfile(device_id=device, natural_language=True, skills=open_)


def _without_when(plan: PlanDocument) -> PlanDocument:
    """Return a plan without the conditions that may name a parameter of a skill."""

    def without(spec: TaskSpec) -> TaskSpec:
        nested = spec.constellation and round_trip(_without_when(msgspec.convert(spec.constellation, PlanDocument)))
        return msgspec.structs.replace(spec, when="", constellation=nested)

    return msgspec.structs.replace(plan, tasks=tuple(map(without, plan.tasks)))
