"""A performer: who performs one kind of effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from asterism.kernel.machine import EffectResult, Event

Report = Callable[[Event], None]
"""How a performer reports what is not an outcome: a sign of life, a lost device."""


class Performer(Protocol):
    """Performs one kind of effect."""

    async def perform(self, effect_id: str, request: Any, report: Report) -> EffectResult:
        """Do it and return its outcome; bounded. Cancelling the coroutine calls it off for good.

        Args:
            effect_id: its id, the idempotency key.
            request: what is to be done, and all that is needed for it: the effect, or what its machine makes of it
                (``Machine.requests``). It is data, and stays as it is while the run goes on.
            report: for what happens meanwhile.
        """
        ...
