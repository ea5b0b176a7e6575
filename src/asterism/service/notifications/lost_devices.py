"""Note the devices that are lost, for a message to people."""

from __future__ import annotations

import asyncio
import contextlib

from asterism.constellation.machine.events import DeviceLost
from asterism.engine.kernel.machine import Event
from asterism.engine.ports.notices import Notice
from asterism.engine.ports.store import Store
from asterism.engine.runtime.clock import Clock
from asterism.errors import StoreUnavailable

AGAIN_S = 600.0
"""Seconds in which a device that is lost repeatedly is noted once."""
MAX_WAITING = 1000
"""Notices that wait for the store; further ones are dropped."""


class LostDevices:
    """Writes a notice when a device is lost.

    Args:
        clock: the current time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._noted_at: dict[str, float] = {}
        self._waiting: asyncio.Queue[Notice] = asyncio.Queue(MAX_WAITING)

    def note(self, event: Event, _actor: str) -> None:
        """Note a device that is lost, and ignore every other event. It does not block."""
        if not isinstance(event, DeviceLost) or event.removed:
            return
        now = self._clock.now()
        if now - self._noted_at.get(event.device, -AGAIN_S) >= AGAIN_S:
            self._noted_at[event.device] = now
            with contextlib.suppress(asyncio.QueueFull):
                self._waiting.put_nowait(Notice(kind="device_lost", subject=event.device, text=event.reason, at=now))

    async def serve(self, store: Store) -> None:
        """Write the notices until this is cancelled. One that the store cannot take is dropped."""
        while True:
            notice = await self._waiting.get()
            with contextlib.suppress(StoreUnavailable):
                await store.add_notice(notice)
