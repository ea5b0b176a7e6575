"""Plans as values: their text, the functions in them, and the plan of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from asterism.constellation.batch import line_spec_of, spec_of
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.documents import PlanDocument, TaskSpec, as_file
from asterism.constellation.parameters import Param
from asterism.constellation.profile import HERE
from asterism.devices.function_source import rebase
from asterism.errors import InvalidInput
from asterism.kernel.data import round_trip
from asterism.planner.plan_file import as_written


def plan_text(plan: PlanDocument) -> str:
    """Return a plan as the text of a plan file."""
    return json.dumps(as_file(plan), indent=2, ensure_ascii=False) + "\n"


def plan_of(constellation: TaskConstellation, name: str, params: Mapping[str, Param] = {}) -> PlanDocument:
    """Return the plan of the constellation of a run, with the skills that its tasks have now.

    Raises:
        InvalidInput: the run has no plan yet.
    """
    if not constellation.tasks:
        raise InvalidInput("this run has no plan yet")
    return PlanDocument(
        name=name,
        params=dict(params),
        tasks=tuple(msgspec.structs.replace(spec_of(task), skill=task.resolved_skill or task.skill) for task in constellation.in_order()),
        dependencies=tuple(as_written(line_spec_of(line)) for line in constellation.lines.values()),
    )


def sources_of(plan: PlanDocument) -> Iterator[str]:
    """Yield the sources of all functions of a plan, and of the plans in it."""
    for spec in plan.tasks:
        if spec.constellation is not None:
            yield from sources_of(msgspec.convert(spec.constellation, PlanDocument))
        elif spec.device == HERE:
            yield spec.skill or spec.name


def devices_of(plan: PlanDocument) -> Iterator[str]:
    """Yield the device of every task of a plan, and of the plans in it."""
    for spec in plan.tasks:
        if spec.constellation is None:
            yield spec.device
        else:
            yield from devices_of(msgspec.convert(spec.constellation, PlanDocument))


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
