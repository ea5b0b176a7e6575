"""Check a plan without running it."""

from __future__ import annotations

from fastapi import APIRouter

from asterism.constellation.model.documents import as_file
from asterism.constellation.python.goal import rehearse
from asterism.errors import InvalidInput, Refused
from asterism.service.api.context import Context
from asterism.service.api.identity import Submitter
from asterism.service.api.models import CheckedPlan, PlanCheck
from asterism.service.api.problems import Problem, documented
from asterism.service.api.runs import goal_from

router = APIRouter(tags=["plans"])


@router.post("/plans/check", responses=documented(413, 422))
async def check_plan(given: PlanCheck, context: Context, sender: Submitter) -> CheckedPlan:  # noqa: ARG001 - the sender may submit
    """Return the plan with which a run would start, with its skills; nothing is written."""
    goal = goal_from(given.request, given.plan, given.params)
    if context.planner is None:
        raise Problem(501, "this server has no planner that works without a run")
    try:
        plan, _ = await rehearse(goal, context.client.fleet, context.planner)
    except Refused as refused:
        raise InvalidInput(str(refused)) from None
    return CheckedPlan(plan=as_file(plan))
