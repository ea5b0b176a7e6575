"""What a run would make of a request or a plan file, without a run: every refusal comes before anything is written."""

from __future__ import annotations

from pathlib import Path

import msgspec

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.documents import PlanDocument, parse_plan
from asterism.constellation.edits import EditRefused
from asterism.constellation.profile import Fleet
from asterism.errors import InvalidInput
from asterism.kernel.run import Run
from asterism.machines.constellation_agent.events import RunOptions, Submitted
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.planner.model_choice import ModelChoice
from asterism.planner.offline.planning import plan_offline
from asterism.planner.plan_file import plan_path, read_plan
from asterism.runtime.ports.planner import Planner, PlannerQuestion, PlanningUnavailable


class Order(msgspec.Struct, frozen=True):
    """What is to be run.

    Attributes:
        title: one line for people.
        request: the user's words, or the name of the plan file.
        given: the plan of the file; None where the request is to be planned.
    """

    title: str
    request: str
    given: PlanDocument | None


def order_of(named: str) -> Order:
    """The order that a command line gives.

    Raises:
        InvalidInput: a plan file that cannot be used.
    """
    path = plan_path(named)
    if path is None:
        return Order(title=named, request=named, given=None)
    plan = read_plan(path)
    return Order(title=plan.name or str(path), request=plan.name or str(path), given=plan)


async def plan_with(planner: Planner, order: Order, fleet: Fleet) -> Order:
    """The order of a request, with the plan that a planner makes of it.

    Raises:
        InvalidInput: no plan can be had.
    """
    try:
        proposal = await planner.propose(PlannerQuestion(key="plan", mode="CREATION", request=order.request, fleet=fleet))
    except PlanningUnavailable as unavailable:
        raise InvalidInput(str(unavailable)) from None
    if proposal.plan is None:
        raise InvalidInput(f"the planner gave up: {proposal.thought}")
    return Order(title=order.title, request=order.request, given=proposal.plan)


def check(order: Order, fleet: Fleet) -> tuple[PlanDocument, TaskConstellation]:
    """The plan, and the constellation that a run of it begins with.

    Raises:
        InvalidInput: it cannot be planned on this fleet; says why.
    """
    plan = order.given or _planned(order.request, fleet)
    rehearsal = Run(CONSTELLATION_AGENT, "plan")
    try:
        rehearsal.take(Submitted(request=order.request, fleet=tuple(fleet.values()), plan=plan), at=0.0, actor="")
    except EditRefused as refused:
        raise InvalidInput(f"the plan cannot be run on this fleet: {refused}") from refused
    return plan, rehearsal.memory.constellation


def submission(order: Order, fleet: Fleet, fleet_file: Path, options: RunOptions, choice: ModelChoice | None = None) -> Submitted:
    """The first event of the run."""
    return Submitted(
        request=order.request,
        fleet=tuple(fleet.values()),
        fleet_file=str(fleet_file.resolve()),
        folder=str(Path.cwd()),
        options=options,
        planner=msgspec.to_builtins(choice) if choice else {},
        plan=order.given,
    )


def _planned(request: str, fleet: Fleet) -> PlanDocument:
    document = plan_offline(request, fleet)
    document.pop("thought", None)
    return parse_plan(document)
