"""Waits for a time: nothing is performed, and a run that only waits is not driven. Under every machine."""

from __future__ import annotations

from typing import ClassVar

from asterism.engine.kernel.machine import Effect, EffectResult
from asterism.engine.kernel.phrase import Text


class WaitEnded(EffectResult, tag="wait_ended", frozen=True, kw_only=True):
    """A wait was cancelled: its time has come, or its run needs it no more."""


class WaitFor(Effect, tag="wait_for", frozen=True, kw_only=True):
    """A durable wait. A timer of its run ends it.

    Attributes:
        about: id of the task or step that waits.
        until: when the wait is over, in seconds since the epoch.
        expires_at: when it is given up; 0 for never.
    """

    performed_outside: ClassVar[bool] = False

    about: str
    until: float = 0.0
    expires_at: float = 0.0

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return its end."""
        return WaitEnded(effect_id=effect_id)
