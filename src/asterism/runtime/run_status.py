"""What a run waits for, apart from the state that its machine is in."""

from __future__ import annotations

from typing import Any

from asterism.kernel.run import Run
from asterism.machines.run_control import Answered, Cancel, Pause, Unpause
from asterism.runtime.ports.store import RunStatus

_CONTROLS = frozenset({Pause, Unpause, Cancel, Answered})
"""What may come from outside to any machine, and begins nothing new where nothing is outstanding."""


def status_of(run: Run[Any]) -> RunStatus:
    """A run's status, apart from its machine's state."""
    if run.ended:
        return "ended"
    if run.memory.paused:
        return "paused"
    outstanding, resting = run.outstanding, run.memory.blocked_children
    busy = any(effect.performed_outside and effect_id not in resting for effect_id, effect in outstanding.items())
    return "waiting" if outstanding and not busy and not run.memory.has_pending_work() else "active"


def is_stuck(run: Run[Any]) -> bool:
    """True where nothing can move a run on: no outcome, no time, no answer, and no command of its own."""
    memory = run.memory
    if run.outstanding or run.ended or memory.paused or memory.has_pending_work() or memory.wake_at() is not None:
        return False
    return not any(kind.from_outside and kind not in _CONTROLS for kind in run.machine.table[run.state])
