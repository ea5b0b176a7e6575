"""Port of performers, which perform one kind of effect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any, Protocol

from asterism.engine.kernel.machine import EffectResult, Event

Report = Callable[[Event], Awaitable[None] | None]
"""Sends a run an event that is not the effect's result, such as the progress of an attempt. A driver's
returns an awaitable, which returns when the event is in the journal, and never if the effect is cancelled."""

TENANT: ContextVar[str] = ContextVar("asterism_tenant", default="")
"""The tenant of the run whose effect is being performed."""


class Performer(Protocol):
    """Performs one kind of effect."""

    async def perform(self, effect_id: str, request: Any, report: Report) -> EffectResult:
        """Perform an effect within a time limit of your own and return its result.

        The runtime sets no limit.

        If the coroutine is cancelled, stop the work. Either the effect was cancelled, and its
        result is that of ``interrupted``. Or this process is giving up the run, and the next owner
        recovers the effect.

        Args:
            effect_id: id of the effect, its idempotency key: the same if a crash repeats the
                effect, another one for each attempt that a retry policy or a person orders.
            request: all data that the effect needs: the effect itself, or what its machine derives
                from it (``Machine.requests``). It is the same after a crash, except for an effect
                that is reattached: its request also says what has happened since, which is how far
                a handler had come, or which commands were sent to a child.
            report: sends events to the run meanwhile.
        """
        ...


class WithinContext:
    """Performs each effect within a context, which is opened for its id and its request."""

    def __init__(self, performer: Performer, opened: Callable[[str, Any], AbstractAsyncContextManager[object]]) -> None:
        self._performer = performer
        self._opened = opened

    async def perform(self, effect_id: str, request: Any, report: Report) -> EffectResult:
        """Perform an effect."""
        async with self._opened(effect_id, request):
            return await self._performer.perform(effect_id, request, report)
