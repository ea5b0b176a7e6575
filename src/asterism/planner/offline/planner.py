"""The planner port without a model: it creates plans, and never edits them."""

from __future__ import annotations

from asterism.constellation.documents import parse_plan
from asterism.constellation.profile import Fleet
from asterism.errors import InvalidInput
from asterism.machines.constellation_agent.approval import why_rejected
from asterism.planner.offline.planning import plan_offline
from asterism.runtime.ports.planner import PlannerRequest, PlanningUnavailable, Proposal


class OfflinePlanner:
    """Turns plain imperative requests into constellations, and refuses any other clause by name.

    Caches the last plan: a request that was rehearsed before its run is not planned twice.
    """

    def __init__(self) -> None:
        self._last: tuple[str, Fleet, Proposal] | None = None

    async def propose(self, question: PlannerRequest) -> Proposal:
        """Return the plan of the request; in EDITING, no edits.

        Raises:
            PlanningUnavailable: a clause cannot be placed, or the last plan was refused: it would
                be the same again.
        """
        if question.mode == "EDITING":
            return Proposal(thought="the offline planner does not edit")
        if question.feedback:
            raise PlanningUnavailable(f"the offline planner has no other plan: {why_rejected(question.feedback)}", code="refused")
        if self._last is not None and self._last[:2] == (question.request, question.fleet):
            return self._last[2]
        try:
            document = plan_offline(question.request, question.fleet)
        except InvalidInput as error:
            raise PlanningUnavailable(str(error), code="refused") from None
        thought = str(document.pop("thought", ""))
        proposal = Proposal(thought=thought, plan=parse_plan(document))
        self._last = (question.request, question.fleet, proposal)
        return proposal
