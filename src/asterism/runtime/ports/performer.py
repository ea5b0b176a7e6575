"""Port of performers, which perform one kind of effect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from asterism.kernel.machine import EffectResult, Event

Report = Callable[[Event], Awaitable[None] | None]
"""Sends a run an event that is not the effect's result, such as progress. A driver's returns an
awaitable, which returns when the event is in the journal, and never if the effect is cancelled."""


class Performer(Protocol):
    """Performs one kind of effect."""

    async def perform(self, effect_id: str, request: Any, report: Report) -> EffectResult:
        """Perform an effect within a time limit and return its result.

        If the coroutine is cancelled, stop the work: the effect was cancelled, or this process is
        giving up the run. Then the next owner recovers the effect.

        Args:
            effect_id: id of the effect, its idempotency key.
            request: all data that the effect needs: the effect itself, or what its machine derives
                from it (``Machine.requests``). It does not change while the run goes on.
            report: sends events to the run meanwhile.
        """
        ...
