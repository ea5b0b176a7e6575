"""A performer: who performs one kind of effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from asterism.kernel.machine import Event, Outcome

Tell = Callable[[Event], None]
"""How a performer reports what is not an outcome: a sign of life, a lost device."""


class Performer(Protocol):
    """Performs one kind of effect."""

    async def perform(self, effect_id: str, effect: Any, memory: Any, tell: Tell) -> Outcome:
        """Do it and return its outcome; bounded. Cancelling the coroutine calls it off for good.

        Args:
            effect_id: its id, the idempotency key.
            effect: what is to be done.
            memory: the machine's memory, to read and not to write.
            tell: for what happens meanwhile.
        """
        ...
