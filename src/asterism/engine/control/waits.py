"""Waits for a time or an event: nothing is performed, and a run that only waits is not driven. Under every machine."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from asterism.engine.kernel.machine import Effect, EffectResult
from asterism.engine.kernel.phrase import Text


class WaitEnded(EffectResult, tag="wait_ended", frozen=True, kw_only=True):
    """A wait was cancelled: its time has come, or its run needs it no more."""


class EventTaken(EffectResult, tag="event_taken", frozen=True, kw_only=True):
    """The event that a wait has got. It comes through the inbox, under the id of the effect: so a wait gets one.

    Attributes:
        event_id: id of the event.
        data: its data, JSON.
    """

    from_outside: ClassVar[bool] = True

    event_id: str = msgspec.field(name="event")
    data: Any = None


class WaitFor(Effect, tag="wait_for", frozen=True, kw_only=True):
    """A durable wait. A timer of its run ends it, or an event.

    Attributes:
        about: id of the task or step that waits.
        until: when the wait is over, in seconds since the epoch; 0 for a wait for an event.
        expires_at: when it is given up; 0 for never.
        event: name of the event; empty for a wait for a time.
        match: condition over the data of the event and ``values``; empty for each event of the name.
    """

    performed_outside: ClassVar[bool] = False

    about: str
    until: float = 0.0
    expires_at: float = 0.0
    event: str = ""
    match: str = ""
    values: dict[str, Any] = msgspec.field(default_factory=dict)

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return its end."""
        return WaitEnded(effect_id=effect_id)
