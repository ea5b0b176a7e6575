"""What a flow agent can start below itself: a constellation, another flow agent, or any machine its runtime has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from asterism.constellation.documents import PlanDocument, parse_plan
from asterism.constellation.profile import AgentProfile
from asterism.errors import AsterismError
from asterism.flows.registry import name_of
from asterism.machines.constellation_agent.events import RunOptions, Submitted
from asterism.machines.control import ChildEnded, StartChild, as_data
from asterism.machines.flow_agent.events import Begun, Limits, Message


class ChildFailed(AsterismError):
    """A child run did not finish.

    Attributes:
        ended: how it ended.
    """

    def __init__(self, key: str, ended: ChildEnded) -> None:
        self.ended = ended
        super().__init__(f"{key} {ended.outcome}" + (f": {ended.reason}" if ended.reason else ""))


def constellation(
    plan: PlanDocument | Mapping[str, Any] | None = None,
    fleet: Iterable[AgentProfile] = (),
    *,
    request: str = "",
    inputs: Mapping[str, Any] | None = None,
    options: RunOptions | None = None,
) -> StartChild:
    """A constellation to start; the runtime that drives the conversation must have its devices.

    Args:
        plan: its tasks and dependencies; without one the runtime's planner plans ``request``.
        fleet: profiles of its devices.
        request: what is to be done, in words.
        inputs: what ``${inputs.…}`` refers to in the plan.
        options: how it behaves.

    Raises:
        InvalidInput: it is no plan.
    """
    document = plan if isinstance(plan, PlanDocument) or plan is None else parse_plan(plan)
    submitted = Submitted(
        request=request,
        fleet=tuple(fleet),
        plan=document,
        inputs=msgspec.to_builtins(dict(inputs or {})),
        options=options or RunOptions(),
    )
    return StartChild(machine="constellation agent", first_kind=Submitted.__name__, first=as_data(submitted), title=request)


def flow(agent: type, text: str = "", **values: Any) -> StartChild:
    """Another flow agent to start; what it asks comes up to this conversation.

    Args:
        agent: its class.
        text: what begins it.
        values: its fields by name, as far as they are known.
    """
    kind: Any = agent
    limits = Limits(approval_s=kind.approval_timeout_s, idle_s=kind.idle_timeout_s)
    begun = Begun(agent=name_of(agent), message=Message(text=text, values=msgspec.to_builtins(values)), limits=limits)
    return StartChild(machine="flow agent", first_kind=Begun.__name__, first=as_data(begun), title=kind.description or agent.__name__)
