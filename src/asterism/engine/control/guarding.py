"""The guards of a run under every machine: how they begin, what a child run gets, and how an admin lifts one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from asterism.engine.control.children import StartChild
from asterism.engine.control.run_control import FleetGuarded, GuardLifted, RunMemory
from asterism.engine.kernel.guards import (
    DeviceGuards,
    GuardedWork,
    Guards,
    Permit,
    lifted,
    not_guarded,
    not_lifted,
    permit,
    with_device,
    with_report,
)
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.permissions import Permission
from asterism.engine.kernel.phrase import phrase
from asterism.errors import Refused


def permit_work(
    memory: RunMemory,
    device: str,
    skill: str,
    arguments: Mapping[str, Any],
    *,
    approval: bool,
    concerned_by: Collection[str] | None = None,
) -> Permit:
    """Return what the guards say about a step, or a call of a tool; ``concerned_by`` is that of a step."""
    return permit(memory.guards, GuardedWork(device=device, skill=skill, arguments=arguments, approval=approval, concerned_by=concerned_by))


def begun(given: Guards, context: StepContext) -> Guards:
    """Return the guards of a new run; a child's come with it.

    In a root they are foreign unless a local user submits it, and what was lifted before holds again unless an admin does.
    """
    if given.submitter:
        return given
    given = given if Permission.ADMIN in context.permissions else not_lifted(given)
    return msgspec.structs.replace(
        given, submitter=context.actor, is_foreign=given.is_foreign or Permission.LOCAL not in context.permissions
    )


def start_child(
    memory: RunMemory,
    effect: StartChild,
    context: StepContext,
    *,
    concerned_by: tuple[str, ...],
    is_approved: bool,
    is_foreign: bool = False,
    started_by: tuple[str, ...] = (),
) -> str:
    """Start a child run with the guards of this run as they stand; return the effect's id.

    Of the plan's part, its submission is concerned by what concerned the work that starts it;
    ``is_approved`` says if a person has approved this work. It is
    foreign if its definition is; by default that is code of this computer. ``started_by`` is as in ``Guards``.
    """
    above = memory.guards
    is_approved = is_approved or above.is_approved or above.approve_plan or above.approve_edits
    own = msgspec.structs.replace(
        above,
        concerning=concerned_by,
        is_approved=is_approved,
        is_foreign=is_foreign,
        started_by=started_by if above.devices else (),
    )
    start = msgspec.structs.replace(effect.start, guards=own)
    return context.schedule(msgspec.structs.replace(effect, start=start))


def note_run_edited(memory: RunMemory, *, is_foreign: bool) -> None:
    """Note that somebody has edited the run, or one below it, for its parent; ``is_foreign`` says that it was over the network."""
    memory.edited = "foreign" if is_foreign or memory.edited == "foreign" else "local"


def lift_guard(memory: RunMemory, event: GuardLifted, context: StepContext) -> StrEnum:
    """Lift a guard that a plan has set.

    Raises:
        Refused: the sender is no admin, or there is no such guard.
    """
    if Permission.ADMIN not in context.permissions:
        raise Refused(phrase("guards.admin_lifts"))
    if why := not_guarded(memory.guards, event.name):
        raise Refused(why)
    memory.guards = lifted(memory.guards, event.name)
    context.touch("run", "")
    return context.state


def take_fleet(memory: RunMemory, event: FleetGuarded, context: StepContext) -> StrEnum | None:
    """Take what the present fleet guards more strictly than the run; no entry if there is nothing of that kind."""
    guards = msgspec.structs.replace(
        memory.guards, submitter_may_approve=memory.guards.submitter_may_approve and event.submitter_may_approve
    )
    for device, found in event.guards.items():
        taken = with_device(guards, device, found)
        guards = guards if taken.devices[device] == guards.devices.get(device, DeviceGuards()) else taken
    for device, names in event.skills.items():
        if device in guards.devices or device in guards.reported:  # a plan guards only what its own run knows
            guards = with_report(guards, device, names)
    if guards == memory.guards:
        return None
    memory.guards = guards
    return context.state
