"""Plans as values: their text, their devices, and the plan of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec

from asterism.constellation.model.batch import line_spec_of, spec_of
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import PlanDocument, as_file
from asterism.constellation.model.parameters import Param
from asterism.constellation.planner.plan_file import as_written
from asterism.errors import InvalidInput


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


def devices_of(plan: PlanDocument) -> Iterator[str]:
    """Yield the device of every task of a plan, and of the plans in it; a task that waits has none."""
    for spec in plan.tasks:
        if spec.constellation is not None:
            yield from devices_of(msgspec.convert(spec.constellation, PlanDocument))
        elif spec.wait is None:
            yield spec.device
