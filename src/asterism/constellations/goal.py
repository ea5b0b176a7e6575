"""The goal of a run, a request in words or a plan, and its rehearsal on a fleet, which writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.documents import PlanDocument
from asterism.constellation.edits import EditRefused
from asterism.constellation.nesting import check_plan
from asterism.constellation.parameters import missing_of, values_of
from asterism.constellation.profile import Fleet
from asterism.errors import InvalidInput
from asterism.kernel.run import Run
from asterism.machines.constellation_agent.events import ConstellationSubmitted
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.planner.plan_file import plan_path, read_plan
from asterism.runtime.ports.planner import Planner, PlannerRequest, PlanningUnavailable

_ANY: dict[str, Any] = {"str": "", "int": 0, "float": 0.0, "bool": False, "list": [], "dict": {}}
"""Values for a rehearsal, which needs none."""


class Goal(msgspec.Struct, frozen=True):
    """The goal of a run.

    Attributes:
        title: title of the run, one line.
        request: request in words, or the name of the plan.
        plan: the plan; None if the run plans the request.
        params: values of the plan's parameters, by name; those with a default may be missing.
    """

    title: str
    request: str
    plan: PlanDocument | None = None
    params: dict[str, Any] = {}


def goal_of(named: str | Path) -> Goal:
    """Return the goal for a request in words, or for the path of a plan file (.json, .yaml, .yml).

    Raises:
        InvalidInput: the plan file does not exist or is invalid.
    """
    path = plan_path(str(named))
    if path is None:
        return Goal(title=str(named), request=str(named))
    plan = read_plan(path)
    return Goal(title=plan.name or str(path), request=plan.name or str(path), plan=plan)


def params_of(goal: Goal) -> dict[str, Any]:
    """Return the values of all parameters of a goal's plan.

    Raises:
        InvalidInput: a value is missing, of another type, or of an unknown name.
    """
    return values_of(goal.plan.params if goal.plan else {}, goal.params)


async def rehearse(goal: Goal, fleet: Fleet, planner: Planner) -> tuple[PlanDocument, TaskConstellation]:
    """Return the plan of a goal, and the constellation with which its run would start.

    Args:
        goal: goal of the run.
        fleet: profiles of the devices, by id.
        planner: plans the request of a goal without a plan.

    Raises:
        InvalidInput: planning failed, or the plan cannot run on this fleet; the text says why.
    """
    missing = missing_of(goal.plan.params, goal.params) if goal.plan else ()
    params = (
        params_of(msgspec.structs.replace(goal, params={**goal.params, **{name: _ANY[goal.plan.params[name].type] for name in missing}}))
        if goal.plan
        else {}
    )
    plan = goal.plan or await _planned(goal.request, fleet, planner)
    rehearsal = Run(CONSTELLATION_AGENT, "plan")
    try:
        if goal.plan is not None:
            check_plan(goal.plan, fleet)
        rehearsal.take(
            ConstellationSubmitted(request=goal.request, fleet=tuple(fleet.values()), plan=plan, params=params), at=0.0, actor=""
        )
    except EditRefused as refused:
        raise InvalidInput(f"the plan cannot be run on this fleet: {refused}") from refused
    return plan, rehearsal.memory.constellation


async def _planned(request: str, fleet: Fleet, planner: Planner) -> PlanDocument:
    try:
        proposal = await planner.propose(PlannerRequest(key="plan", mode="CREATION", request=request, fleet=fleet))
    except PlanningUnavailable as unavailable:
        raise InvalidInput(str(unavailable)) from None
    if proposal.plan is None:
        raise InvalidInput(f"the planner gave up: {proposal.thought}")
    return proposal.plan
