"""The status of a run: whether it can go on, waits for people, is paused or has ended."""

from __future__ import annotations

from typing import Any

from asterism.kernel.run import Run
from asterism.machines.run_control import Answered, Cancel, Pause, Unpause
from asterism.runtime.ports.store import RunStatus

_CONTROLS = frozenset({Pause, Unpause, Cancel, Answered})
"""Commands that every machine accepts, and that start nothing new if nothing is outstanding."""


def status_of(run: Run[Any]) -> RunStatus:
    """Return the status of a run; it does not depend on the machine's state."""
    if run.ended:
        return "ended"
    if run.memory.paused:
        return "paused"
    outstanding, blocked = run.outstanding, run.memory.blocked_children
    busy = any(effect.performed_outside and effect_id not in blocked for effect_id, effect in outstanding.items())
    return "waiting" if outstanding and not busy and not run.memory.has_pending_work() else "active"


def is_stuck(run: Run[Any]) -> bool:
    """Return True if nothing can advance a run: no effect, wake-up time, answer or command."""
    memory = run.memory
    if run.outstanding or run.ended or memory.paused or memory.has_pending_work() or memory.wake_at() is not None:
        return False
    return not any(kind.from_outside and kind not in _CONTROLS for kind in run.machine.table[run.state])
