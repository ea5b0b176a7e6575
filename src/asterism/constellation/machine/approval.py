"""Approval of the planner's proposals by a person: a plan, edits, or a restart.

``planning`` applies an approved one.

The decision stays open until the answer, so the tasks that ``hold`` names stay on hold. A missing
answer never counts as approval.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from asterism.constellation.machine.events import ConstellationAgentStatus, Planned
from asterism.constellation.machine.guarding import GUARDED
from asterism.constellation.machine.memory import Awaiting, AwaitingApproval, AwaitingPlanner, ConstellationMemory, PlanRequest
from asterism.constellation.model.changes import Change
from asterism.constellation.model.documents import parse_plan
from asterism.engine.control.inquiries import open_inquiry
from asterism.engine.control.run_control import Answered
from asterism.engine.control.usage import Usage
from asterism.engine.kernel.data import round_trip
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.phrase import Phrase, phrase
from asterism.errors import InvalidInput, Refused

Kind = Literal["plan", "edits", "restart"]

_SHOWN = 500
"""Number of characters of a rejected proposal in the feedback to the planner."""


def ask_approval(memory: ConstellationMemory, proposed: Planned, context: StepContext, changed: list[Change] | None = None) -> None:
    """Ask a person to approve a plan, or edits with the changes that they would make."""
    kind = kind_of(proposed)
    prompt = phrase("approve_proposal", kind=kind, is_edited=isinstance(memory.planning, AwaitingApproval))
    subject: dict[str, Any] = {"kind": kind, "status": str(proposed.status), "thought": proposed.thought}
    if changed is None:
        subject["plan"] = round_trip(proposed.plan)
    else:
        subject |= {"actions": round_trip(proposed.actions), "changes": context.side_effect("changes", lambda: round_trip(changed))}
    if context.rules >= GUARDED and kind != "restart":  # its tasks take them by ${params.…} and ${inputs.…}
        subject |= {name: values for name, values in (("params", memory.params), ("inputs", memory.inputs)) if values}
    essential = msgspec.structs.replace(proposed, observation="", usage=Usage(), prompt="", reply="", notes=())  # these are only shown
    planner = memory.planning if isinstance(memory.planning, Awaiting) else AwaitingPlanner(request=PlanRequest(), effect_id="")
    memory.planning = AwaitingApproval(
        request=planner.request,
        effect_id=open_inquiry(memory, kind, prompt, subject, context, verbs=("approve", "reject") if kind == "restart" else None),
        asked_at=planner.asked_at,
        moved=planner.moved,
        ended_since=planner.ended_since,
        proposed=essential,
        version=memory.constellation.version,
    )


def kind_of(proposed: Planned) -> Kind:
    """Return the kind of a proposal."""
    if proposed.status is ConstellationAgentStatus.START and proposed.plan is None:
        return "restart"
    return "edits" if proposed.plan is None else "plan"


def decided(proposed: Planned, event: Answered) -> Planned:
    """Return the proposal as a person decided, with their edit if they edited it.

    Raises:
        Refused: the edit is malformed; the question stays open.
    """
    if event.verb != "edit":
        return proposed
    if kind_of(proposed) == "plan":
        try:
            return msgspec.structs.replace(proposed, plan=parse_plan(event.value))
        except InvalidInput as error:
            raise Refused(phrase("edit_is_plan", why=str(error))) from None
    actions = event.value.get("actions")
    if not isinstance(actions, list) or not all(isinstance(action, dict) for action in actions):
        raise Refused(phrase("edit_is_actions"))
    return msgspec.structs.replace(proposed, actions=tuple(actions))


def feedback_on(proposed: Planned, why: Phrase) -> Phrase:
    """Return a rejection as feedback, with the proposal, because the planner does not remember it."""
    rejected = msgspec.json.encode(proposed.plan or proposed.actions).decode()
    cut = rejected if len(rejected) <= _SHOWN else f"{rejected[:_SHOWN]}…"
    return phrase("proposal_rejected", why=why, proposal=cut)
