"""How a flow agent is started by another run."""

from __future__ import annotations

import msgspec

from asterism.kernel.start import StartRequest
from asterism.machines.flow_agent.events import ConversationLimits, ConversationStarted, Message


class FlowDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What can be said of a conversation before it is known what it is started for.

    Attributes:
        agent: the class of the agent, as ``module:name``.
        limits: what bounds it.
        requires_approval: no handler leads to RUNNING before a person has answered a question for approval.
    """

    agent: str
    limits: ConversationLimits = ConversationLimits()
    requires_approval: bool = False


def first_event(start: StartRequest) -> ConversationStarted:
    """Return the event that begins the run: the request is what is said first, the inputs are values of fields.

    Raises:
        InvalidInput: its definition is no ``FlowDefinition``.
    """
    defined = start.defined_as(FlowDefinition)
    own_s = defined.limits.wall_s
    limit_s = start.budget_s if own_s is None else start.limit_s(own_s)
    return ConversationStarted(
        agent=defined.agent,
        message=Message(text=start.request, values=start.inputs),
        limits=msgspec.structs.replace(defined.limits, wall_s=limit_s),
        fleet_file=start.fleet_file,
        requires_approval=defined.requires_approval,
    )
