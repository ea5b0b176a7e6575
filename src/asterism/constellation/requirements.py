"""What a plan needs on this computer: the functions that are its tasks, and secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.model.task import TaskSpec, TaskStar
from asterism.devices.attempts.secrets import secret
from asterism.devices.kinds.here import HereDevice
from asterism.devices.model.references import SECRET, secrets_in
from asterism.devices.port import Device
from asterism.devices.skills.source import rebase
from asterism.engine.kernel.data import round_trip
from asterism.engine.kernel.profile import HERE, Fleet
from asterism.errors import InvalidInput, MissingExtra


def sources_of(plan: PlanDocument) -> Iterator[str]:
    """Yield the sources of all functions of a plan, and of the plans in it."""
    for spec in plan.tasks:
        if spec.constellation is not None:
            yield from sources_of(msgspec.convert(spec.constellation, PlanDocument))
        elif spec.device == HERE:
            yield spec.skill or spec.name


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
