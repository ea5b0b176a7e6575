"""Deliver notices. Whatever is killed, each message is sent at least once, and a repetition says so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from asterism.devices.model.attempt import DeviceLost
from asterism.engine.kernel.machine import Event
from asterism.engine.ports.notices import Channel, Delivery, Notice
from asterism.engine.ports.store import InquiryRow, RunRow, Store
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.task_group import do_each
from asterism.errors import RunNotFound, StoreUnavailable
from asterism.service.notifications.message import NoticeMessage, ended, message_of, routed, sending, skipped

PAUSE_S = 1.0
"""Seconds between two looks for notices."""
AT_ONCE = 8
"""Messages that are sent at once: a channel that does not answer delays few others."""
AGAIN_S = 600.0
"""Seconds in which a device that is lost repeatedly is noted once."""
MAX_WAITING = 1000
"""Notices that wait for the store; further ones are dropped."""

Send = Callable[[Channel, NoticeMessage], Awaitable[str]]
"""Sends a message and returns an empty text, or why it could not be sent."""


class NotifiedRuns(Protocol):
    """Knows what a message about a run needs, from its journal."""

    async def reason(self, row: RunRow) -> str:
        """Return why a run has failed; empty if nobody knows."""
        ...

    async def channels(self, row: RunRow) -> Sequence[str]:
        """Return the names of the channels for messages about a run and the runs below it; empty for all."""
        ...


class Notifier:
    """Routes the notices of a store to channels, and delivers them.

    Several may serve one store.

    Args:
        store: the store.
        clock: the current time.
        channels: the channels of the fleet file.
        send: sends a message.
        runs: knows the reasons of failures, and the channels that runs name.
        url: address of the server, for links; empty for none.
    """

    def __init__(self, store: Store, clock: Clock, channels: Sequence[Channel], send: Send, *, runs: NotifiedRuns, url: str = "") -> None:
        self._store = store
        self._clock = clock
        self._channels = {it.name: it for it in channels}
        self._send = send
        self._runs = runs
        self._url = url

    async def serve(self) -> None:
        """Deliver until cancelled. A store that is unavailable is tried again."""
        while True:
            with contextlib.suppress(StoreUnavailable):
                await self.deliver()
            await asyncio.sleep(PAUSE_S)

    async def deliver(self) -> None:
        """Route the notices there are, and send what is due.

        Raises:
            StoreUnavailable: the store failed; a message may be repeated, and will say so.
        """
        now = self._clock.now()
        for notice in await self._store.unrouted_notices():
            deliveries = routed(notice, list(self._channels.values()), now, named=await self._named(notice))
            await self._store.route_notice(notice.number, deliveries)
        await do_each(await self._store.deliveries(due_by=now), self._deliver_one, at_once=AT_ONCE)

    async def _deliver_one(self, due: tuple[Notice, Delivery]) -> None:
        notice, delivery = due
        channel, about = self._channels.get(delivery.channel), await self._about(notice)
        if channel is None or about is None:  # taken out of the fleet file; pruned, or answered meanwhile
            await self._store.replace_delivery(skipped(delivery), before=delivery)
            return
        title, asked, reason = about
        message = message_of(notice, delivery, title=title, asked=asked, reason=reason, url=self._url)
        begun = sending(delivery, self._clock.now())
        if await self._store.replace_delivery(begun, before=delivery):
            error = await self._send(channel, message)
            await self._store.replace_delivery(ended(begun, self._clock.now(), error), before=begun)

    async def _named(self, notice: Notice) -> Sequence[str]:
        if notice.kind == "not_started":
            found = await self._store.schedules(notice.tenant, name=notice.subject)
            return tuple(found[0].options.get("notify", ())) if found else ()
        if not notice.run_id:
            return ()
        try:
            row = await self._store.run(notice.run_id)
            return await self._runs.channels(await self._store.run(row.root))
        except RunNotFound:  # it was pruned
            return ()

    async def _about(self, notice: Notice) -> tuple[str, InquiryRow | None, str] | None:
        """Return the title of the run, the question, and why the run failed; None if the run or the question is gone."""
        if not notice.run_id:
            return "", None, ""
        try:
            row = await self._store.run(notice.run_id)
        except RunNotFound:
            return None
        if notice.kind != "question":
            return row.title, None, await self._runs.reason(row) if notice.kind == "failed" else ""
        asked = await self._store.inquiries(run_id=notice.run_id)
        return next(((row.title, it, "") for it in asked if it.inquiry_id == notice.subject), None)


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
