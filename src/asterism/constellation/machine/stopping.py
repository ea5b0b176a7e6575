"""Cancelling attempts and questions, and ending what runs on other computers."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from asterism.constellation.machine.events import AttemptAttached, AttemptStopped, Dispatch, StopAttempt
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.engine.control import common_rows
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.phrase import Text

STOP_TIMEOUT_S = 600.0
"""Seconds for which a device is asked to end an attempt; afterwards the run names what may still run."""
STOPPED_AGAIN = 7
"""Rules from which on a stop that was given up is tried again."""
DETACHED_BY = ("device_lost", "timeout", "deadline", "crashed")
"""Errors after which an attempt may go on where the device runs it."""


def cancel_attempt(memory: ConstellationMemory, effect_id: str, context: StepContext, why: Text = "") -> None:
    """Cancel an attempt or a question and ignore its result; end the attempt on its device.

    Any other effect is cancelled, too.
    """
    attempt, asked_by_device = memory.attempts.get(effect_id), memory.asked_by_device(effect_id)
    may_run = attempt is not None and (may_run_elsewhere(memory, effect_id, attempt) or outlives_cancel(memory, effect_id, attempt))
    drop_effect(memory, effect_id, context, why)
    if attempt is not None and may_run:
        stop_attempt(memory, attempt.key(effect_id), attempt, context)
    elif asked_by_device is not None:
        stop_attempt(memory, asked_by_device.first, asked_by_device, context)


def drop_effect(memory: ConstellationMemory, effect_id: str, context: StepContext, why: Text = "") -> None:
    """Cancel an attempt, a question or another effect in this run only, and ignore its result."""
    common_rows.cancel_effect(effect_id, context, why)
    memory.remove_attempt(effect_id)
    memory.inquiries.pop(effect_id, None)
    memory.questions.pop(effect_id, None)
    memory.waits.pop(effect_id, None)


def may_run_elsewhere(memory: ConstellationMemory, effect_id: str, attempt: Dispatch) -> bool:
    """Return True if an attempt may go on after this process has detached from it."""
    if not attempt.repeatable and memory.never_began(effect_id):
        return False
    profile = memory.fleet.get(attempt.device_id)
    return attempt.key(effect_id) in memory.handles or (profile is not None and profile.reattach)


def outlives_cancel(memory: ConstellationMemory, effect_id: str, attempt: Dispatch) -> bool:
    """Return True if an attempt that has begun may go on after a cancel, on a device that does not find it again."""
    profile = memory.fleet.get(attempt.device_id)
    return profile is not None and profile.outlives_cancel and not memory.never_began(effect_id)


def stop_attempt(memory: ConstellationMemory, key: str, attempt: Dispatch, context: StepContext) -> None:
    """End an attempt on its device."""
    stop = StopAttempt(
        of=key,
        task_id=attempt.task_id,
        device=attempt.device_id,
        skill=attempt.skill,
        handle=memory.handles.get(key, ""),
        leg=attempt.leg,
        state=attempt.state,
        until=context.at + STOP_TIMEOUT_S,
    )
    context.schedule(stop)


def stop_again(memory: ConstellationMemory, context: StepContext, device: str = "") -> None:
    """Try again to end what may still run, on one device or on all."""
    for key, stop in tuple(memory.unstopped.items()):
        if device in ("", stop.device):
            del memory.unstopped[key]
            context.schedule(msgspec.structs.replace(stop, until=context.at + STOP_TIMEOUT_S))


# -- rows of every state ---------------------------------------------------------------------------


def note_handle(memory: ConstellationMemory, event: AttemptAttached, context: StepContext) -> StrEnum | None:
    """Note the handle of a running attempt; end an attempt that was cancelled before."""
    attempt = context.outstanding.get(event.of)
    if not isinstance(attempt, Dispatch):
        return None
    key = attempt.key(event.of)
    if memory.handles.get(key) == event.handle:
        return None
    memory.handles[key] = event.handle
    if event.of not in memory.attempts:
        stop_attempt(memory, key, attempt, context)
        return context.state
    if event.of in memory.queued:
        memory.begin_attempt(event.of)
    context.touch("task", attempt.task_id)
    return context.state


def note_stopped(memory: ConstellationMemory, event: AttemptStopped, context: StepContext) -> StrEnum:
    """Note what may still run. A fork ignores the result of a stop that belongs to its original."""
    stop = context.outstanding.get(event.effect_id)
    if isinstance(stop, StopAttempt):
        memory.handles.pop(stop.of, None)
        if context.rules >= STOPPED_AGAIN:
            memory.still_running.pop(stop.of, None)
    if event.error and isinstance(stop, StopAttempt) and event.effect_id not in context.abandoned:
        memory.still_running[stop.of] = event.error
        if context.rules >= STOPPED_AGAIN:
            memory.unstopped[stop.of] = stop
    return context.state
