"""A client and a driver in one object, which is what ``asterism.open()`` gives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from asterism.constellation.profile import Fleet
from asterism.errors import Refused, RunOwned, UnknownMachine
from asterism.kernel.journal import Entry
from asterism.kernel.machine import Event
from asterism.kernel.run import Run
from asterism.runtime.client import VERDICT_POLL_S, Client, accepted, no_verdict, polls
from asterism.runtime.clock import Clock
from asterism.runtime.driver import Driver
from asterism.runtime.ports.store import RunRow, Store


class Runtime(Client):
    """A client whose runs can be driven in this process.

    Args:
        store, clock: as those of a client.
        driver: drives runs of this store; its machines are those of the client.
        fleet, fleet_file: the devices of the driver's performers, as those of a client.
    """

    def __init__(self, store: Store, driver: Driver, clock: Clock, *, fleet: Fleet | None = None, fleet_file: str = "") -> None:
        super().__init__(store, clock, driver.machines, fleet=fleet, fleet_file=fleet_file)
        self.driver = driver

    async def drive(self, run_id: str, *, park: bool = True) -> RunRow:
        """Claim a run and take it as far as it goes; see ``Driver.drive``. A child goes on with its root."""
        return await self.driver.drive(run_id, park=park)

    async def send(self, run_id: str, event: Event, *, actor: str, key: str = "", timeout_s: float = 30.0) -> str:
        """Put an event into a run's inbox, drive the run where nobody else does, and return the verdict.

        A run that nobody owns (of a child: its root) is driven here until it has taken the event and only people can move it on.

        Args:
            run_id: the run's id.
            event: what happens to it.
            actor: who says so.
            key: the same key again gets the same verdict; a fresh one by default.
            timeout_s: how long to wait for another owner's verdict.

        Returns:
            ``accepted``.

        Raises:
            RunNotFound, RunNewer, Refused: as ``Client.send``.
            UnknownMachine: nobody owns it, and its machine, or that of a run below it, is not known here; nothing is written.
        """
        row = await self._sendable(run_id)
        root = row if row.root == run_id else await self.store.run(row.root)
        if not root.owner:
            await self.driver.check_tree(root)  # before it is written: nobody here could take it
        await self.post(run_id, event, actor=actor, key=(key := key or self.clock.new_id()))
        for _ in range(polls(timeout_s)):
            try:
                await self.drive(run_id)
            except RunOwned:
                self.driver.wake_inbox()
            except UnknownMachine:  # an owner that knows its machine may have taken the event, and released the run since
                if not await self.store.verdict(run_id, key):
                    raise
            if verdict := await self.store.verdict(run_id, key):
                return accepted(verdict)
            await asyncio.sleep(VERDICT_POLL_S)
        raise Refused(no_verdict(run_id, timeout_s))

    def _submitted(self, live: Run[Any], entries: Sequence[Entry]) -> None:
        self.driver.submitted(live)
        self.driver.notify(live.id, entries)

    def _forked(self, run_id: str, entries: Sequence[Entry]) -> None:
        self.driver.notify(run_id, entries)

    def _sent(self) -> None:
        self.driver.wake_inbox()
