"""The definition of a flow agent that another run starts."""

from __future__ import annotations

import msgspec

from asterism.kernel.start import StartRequest
from asterism.machines.flow_agent.events import ConversationLimits, ConversationStarted, Message


class FlowDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Everything of a conversation that is known before its request and inputs.

    Attributes:
        agent: the class of the agent, as ``module:name``.
        limits: its time limits.
        requires_approval: as in ``ConversationStarted``.
    """

    agent: str
    limits: ConversationLimits = ConversationLimits()
    requires_approval: bool = False


def first_event(start: StartRequest) -> ConversationStarted:
    """Return the event that begins the run: the request is its message, the inputs are fields.

    Raises:
        InvalidInput: the definition of the request is not a ``FlowDefinition``.
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
