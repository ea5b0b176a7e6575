"""The start of a constellation agent by another run: its definition, and the first event that is made from it."""

from __future__ import annotations

import msgspec

from asterism.constellation.machine.events import ConstellationSubmitted, RunOptions
from asterism.constellation.model.documents import PlanDocument
from asterism.engine.control.children import event_data
from asterism.engine.kernel.machine import StartRequest
from asterism.engine.kernel.profile import AgentProfile, ChildSpec

MACHINE = "constellation agent"
"""The name of the machine of constellations."""


class ConstellationDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Everything of a constellation that is known before its request and inputs.

    Attributes:
        plan: its tasks and dependencies; None if the planner is to plan the request.
        working_directory: base of relative paths in its tasks; empty for the driver's current
            folder.
    """

    fleet: tuple[AgentProfile, ...] = ()
    plan: PlanDocument | None = None
    options: RunOptions = RunOptions()
    working_directory: str = ""

    def as_child(self) -> ChildSpec:
        """Return the constellation as a child of another run. Raises InvalidInput if a value in it is not JSON."""
        return ChildSpec(machine=MACHINE, definition=event_data(self))


def first_event(start: StartRequest) -> ConstellationSubmitted:
    """Return the event that begins the run.

    Raises:
        InvalidInput: the definition of the request is not a ``ConstellationDefinition``.
    """
    defined = start.defined_as(ConstellationDefinition)
    limit_s = start.limit_s(defined.options.wall_limit_s, default_s=RunOptions().wall_limit_s)
    return ConstellationSubmitted(
        request=start.request,
        fleet_file=start.fleet_file,
        working_directory=defined.working_directory,
        fleet=defined.fleet,
        options=msgspec.structs.replace(defined.options, wall_limit_s=limit_s),
        plan=defined.plan,
        inputs=start.inputs,
        guards=start.guards,
    )
