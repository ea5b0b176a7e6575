"""What a plan needs before it runs: devices that can be used, functions that are tasks, and secrets."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.model.task import TaskSpec, TaskStar
from asterism.devices.attempts.secrets import secret
from asterism.devices.fleet.fleet_file import UnopenedDevice
from asterism.devices.kinds.here import HereDevice
from asterism.devices.model.references import SECRET, secrets_in
from asterism.devices.port import Device
from asterism.devices.skills.source import rebase
from asterism.engine.kernel.data import round_trip
from asterism.engine.kernel.profile import HERE, Fleet
from asterism.errors import InvalidInput, MissingExtra

REACH_S = 20.0
"""Seconds that a device may take to answer before a run that uses it starts."""


def sources_of(plan: PlanDocument) -> Iterator[str]:
    """Return the sources of all functions of a plan, and of the plans in it."""
    return (spec.skill or spec.name for spec in plan.all_tasks() if spec.constellation is None and spec.device == HERE)


async def fleet_with(plan: PlanDocument | None, fleet: Fleet, here: HereDevice | None) -> Fleet:
    """Return a fleet for a plan: with the device ``here`` if functions are tasks of it.

    Raises:
        InvalidInput: a function cannot be imported or performed; the text names it.
    """
    sources = list(sources_of(plan)) if plan else []
    return {**fleet, HERE: await here.profile_with(sources)} if sources and here else fleet


def rebase_plan(plan: PlanDocument, old: Path, new: Path | None = None) -> PlanDocument:
    """Return a plan whose functions have sources relative to another folder, or absolute ones."""
    return msgspec.structs.replace(plan, tasks=tuple(rebase_task(spec, old, new) for spec in plan.tasks))


def rebase_task(spec: TaskSpec, old: Path, new: Path | None = None) -> TaskSpec:
    """Return a task whose functions have sources relative to another folder, or absolute ones."""
    if spec.constellation is not None:
        nested = rebase_plan(msgspec.convert(spec.constellation, PlanDocument), old, new)
        return msgspec.structs.replace(spec, constellation=round_trip(nested))
    if spec.device == HERE:
        return msgspec.structs.replace(spec, skill=rebase(spec.skill or spec.name, old, new))
    return spec


def missing_secrets(plan: PlanDocument, devices: Mapping[str, Device] = {}) -> list[str]:
    """Return for each secret of a plan that cannot be used here, the reason; arguments as for ``missing_for_tasks``."""
    return missing_for_tasks(plan.tasks, devices)


def missing_for_tasks(tasks: Sequence[TaskSpec | TaskStar], devices: Mapping[str, Device] = {}) -> list[str]:
    """Return for each secret that cannot be used here, and that the unsettled ones of some tasks need, the reason.

    Args:
        tasks: all tasks of a plan or of a run; the plans nested in them are read, too.
        devices: the devices of their fleet, by id; one may set variables for its processes (``environment``).
    """
    reasons = dict[str, None]()
    refers_to_task = any(task.task_id == SECRET for task in tasks)
    for task in tasks:
        if isinstance(task, TaskStar) and task.settled:
            continue
        if task.constellation is not None:
            reasons |= dict.fromkeys(missing_secrets(msgspec.convert(task.constellation, PlanDocument), devices))
        environment = device.environment if (device := devices.get(task.device)) else os.environ
        for name in () if refers_to_task else secrets_in([task.inputs, task.env]):
            try:
                secret(name, environment)
            except (InvalidInput, MissingExtra) as error:
                reasons[str(error)] = None
    return list(reasons)


def check_secrets_set(plan: PlanDocument, devices: Mapping[str, Device]) -> None:
    """Check that the secrets of a plan can be used here; arguments as for ``missing_secrets``.

    Raises:
        InvalidInput: one cannot; names all of them.
    """
    if reasons := missing_secrets(plan, devices):
        raise InvalidInput("; ".join(reasons))


def devices_of(plan: PlanDocument) -> Iterator[str]:
    """Return the device of every task of a plan, and of the plans in it; a task that waits has none."""
    return (spec.device for spec in plan.all_tasks() if spec.constellation is None and spec.wait is None)


async def check_usable(plan: PlanDocument, devices: Mapping[str, Device]) -> None:
    """Check that each device of a plan could be opened and can be reached; others are not asked.

    Raises:
        InvalidInput: it cannot; the text names the first such device of the plan, and the cause.
    """
    async with asyncio.TaskGroup() as group:
        used = {name: group.create_task(cause_of(devices[name])) for name in dict.fromkeys(devices_of(plan)) if name in devices}
    for name, asked in used.items():
        if why := asked.result():
            raise _unusable(name, why)


def check_opened(plan: PlanDocument, devices: Mapping[str, Device]) -> None:
    """Check that each device of a plan could be opened. Raises InvalidInput as ``check_usable``."""
    for name in devices_of(plan):
        if isinstance(device := devices.get(name), UnopenedDevice):
            raise _unusable(name, device.unreachable)


def with_causes(error: InvalidInput, devices: Mapping[str, Device]) -> InvalidInput:
    """Return the error of a request that cannot be planned, with a line for each device whose skills are unknown.

    If they all are, the reason of the first one is the error.
    """
    causes = {name: why for name, device in devices.items() if (why := device.unreachable)}
    if causes and not devices.keys() - causes.keys() - {HERE}:
        return InvalidInput(next(iter(causes.values())))
    return InvalidInput("\n".join([str(error), *(f"  device {name!r} cannot be used: {why}" for name, why in causes.items())]))


def _unusable(name: str, why: str) -> InvalidInput:
    return InvalidInput(f"device {name!r} of the plan cannot be used: {why}")


async def cause_of(device: Device, within_s: float = REACH_S) -> str:
    """Return why a device cannot be used; empty if it can."""
    if device.unreachable:
        return device.unreachable
    try:
        async with asyncio.timeout(within_s):
            return await device.reach()
    except TimeoutError:
        return f"it has not answered within {within_s:g} s"
