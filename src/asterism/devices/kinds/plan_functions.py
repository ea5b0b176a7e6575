"""The Python functions that are tasks of a plan: their sources, and the folder that relative ones count from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from asterism.constellation.model.documents import PlanDocument, TaskSpec
from asterism.devices.kinds.here import HereDevice
from asterism.devices.skills.function_source import rebase
from asterism.engine.kernel.data import round_trip
from asterism.engine.kernel.profile import HERE, Fleet


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
