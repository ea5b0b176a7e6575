"""News from devices: lost, found, changed; and the progress of their attempts."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from asterism.constellation.machine.events import AttemptBegun, AttemptProgressed, AttemptQueued
from asterism.constellation.machine.guarding import GUARDED, with_skills
from asterism.constellation.machine.memory import AwaitingApproval, ConstellationMemory
from asterism.constellation.machine.stopping import stop_again
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.resolution import check_inputs
from asterism.constellation.model.task import TaskStar
from asterism.devices.model.attempt import DeviceFound, DeviceLost
from asterism.engine.kernel.guards import with_device
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.phrase import Phrase, Text, phrase
from asterism.engine.kernel.profile import AgentProfile


def note_lost(memory: ConstellationMemory, event: DeviceLost, context: StepContext) -> StrEnum:
    """Mark a device as lost; one that has left the fleet is taken out."""
    memory.lost_devices[event.device] = event.reason
    if event.removed:
        memory.fleet = {device: profile for device, profile in memory.fleet.items() if device != event.device}
    context.touch("device", event.device)
    return context.state


def note_found(memory: ConstellationMemory, event: DeviceFound, context: StepContext) -> StrEnum | None:
    """Mark a device as available, with its profile if it has another one; add a device that has joined the fleet."""
    if event.profile is not None:
        if event.profile == memory.fleet.get(event.device) and event.device not in memory.lost_devices:
            return None
        if context.rules >= GUARDED:
            is_new = event.device not in memory.fleet
            guards = with_device(memory.guards, event.device, event.profile.guards, is_new=is_new)
            memory.guards = with_skills(guards, event.profile)
            if memory.schedule and isinstance(memory.planning, AwaitingApproval):
                memory.planning.version = -1  # the edits may mean other skills now, so the question is asked again
        memory.fleet = {**memory.fleet, event.device: event.profile}
        memory.changed_devices[event.device] = None
    memory.lost_devices.pop(event.device, None)
    stop_again(memory, context, event.device)
    context.touch("device", event.device)
    return context.state


def why_changed(profile: AgentProfile, task: TaskStar, arguments: dict[str, Any]) -> Phrase | None:
    """Return why a device whose profile has changed cannot perform a task with these arguments; None if it can."""
    if not task.resolved_skill:
        return None
    skill = profile.skill(task.resolved_skill)
    if skill is None:
        return phrase("skill_gone", device=profile.device_id, skill=task.resolved_skill)
    missing = [name for name in skill.required_names() if name not in arguments]
    why: Text = phrase("it_needs", names=missing) if missing else ""
    try:
        check_inputs(task.task_id, arguments, skill)
    except EditRefused as refused:
        why = refused.refusal.why
    return phrase("skill_changed", skill=skill.name, device=profile.device_id, why=why) if why else None


def note_progress(memory: ConstellationMemory, event: AttemptProgressed, context: StepContext) -> StrEnum | None:
    """Journal a progress report of a running attempt."""
    return context.state if event.effect_id in memory.attempts else None


def note_begun(memory: ConstellationMemory, event: AttemptBegun, context: StepContext) -> StrEnum | None:
    """Count a queued attempt as begun."""
    if event.of not in memory.queued:
        return None
    memory.begin_attempt(event.of)
    context.touch("task", memory.attempts[event.of].task_id)
    return context.state


def note_queued(memory: ConstellationMemory, event: AttemptQueued, context: StepContext) -> StrEnum | None:
    """Count a begun attempt as queued."""
    if event.of not in memory.attempts or event.of in memory.queued:
        return None
    memory.queue_attempt(event.of)
    context.touch("task", memory.attempts[event.of].task_id)
    return context.state
