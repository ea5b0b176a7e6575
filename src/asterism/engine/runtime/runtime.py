"""A client and a driver in one object, as ``asterism.open()`` returns it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar
from typing import Any

from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Event
from asterism.engine.kernel.profile import Fleet
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import RunRow, Store
from asterism.engine.runtime.client import Client, accepted, no_verdict, poll_again
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.driver import Driver
from asterism.errors import Refused, RunOwned, UnknownMachine

RESERVED_S = 60.0
"""Seconds in which a program that drives its own runs must begin to drive a new one; then a server
takes it."""


class Runtime(Client):
    """A client whose runs can be driven in this process.

    Args:
        store, clock: as in ``Client``.
        driver: drives runs of this store; its forms are the client's.
        fleet, fleet_file, fleet_name: the devices of the driver's performers, as in ``Client``.

    Attributes:
        is_served: True if an engine drives the due runs here, so that nothing is driven by a call.
    """

    def __init__(
        self, store: Store, driver: Driver, clock: Clock, *, fleet: Fleet | None = None, fleet_file: str = "", fleet_name: str = ""
    ) -> None:
        super().__init__(store, clock, driver.forms, fleet=fleet, fleet_file=fleet_file, fleet_name=fleet_name)
        self.driver = driver
        self.is_served = False

    async def drive(self, run_id: str, *, park: bool = True) -> RunRow:
        """Acquire a run and drive it as far as it goes; see ``Driver.drive``.

        For a child, its root is driven.
        """
        return await self.driver.drive(run_id, park=park)

    async def send(self, run_id: str, event: Event, *, actor: str, key: str = "", timeout_s: float = 30.0) -> str:
        """Put an event into a run's inbox, drive the run if nobody else does; return the verdict.

        If nobody owns the run (for a child: its root), it is driven here until it has processed the
        event and only people can advance it. If that lasts longer than ``timeout_s``, this returns,
        and the run goes on while the driver is open. Arguments and result are those of ``Client.send``.

        Raises:
            RunNotFound, RunNewer, Refused: as ``Client.send``.
            UnknownMachine: nobody owns the run, and this program lacks its machine, or that of a
                run below it; nothing is written.
        """
        if self.is_served:
            return await super().send(run_id, event, actor=actor, key=key, timeout_s=timeout_s)
        until = asyncio.get_running_loop().time() + timeout_s
        row = await self._sendable(run_id)
        root = row if row.root == run_id else await self.store.run(row.root)
        if not root.owner:
            await self.driver.check_tree(root)  # before the event is written: nobody here could process it
        await self.post(run_id, event, actor=actor, key=(key := key or self.clock.new_id()))
        while True:
            driving = self.driver.start(run_id)
            await asyncio.wait([driving], timeout=max(0.0, until - asyncio.get_running_loop().time()))
            verdict = await self.store.verdict(run_id, key)
            if driving.done() and isinstance(error := driving.exception(), Exception):
                if isinstance(error, RunOwned):
                    self.driver.wake_inbox()
                elif not (verdict and isinstance(error, UnknownMachine)):  # another owner may have processed it and released the run
                    raise error
            if verdict:
                return accepted(verdict)
            if not await poll_again(until):
                raise Refused(no_verdict(run_id, timeout_s))

    def _due_at(self, at: float) -> float:
        return at if self.is_served else at + RESERVED_S

    def _submitted(self, live: Run[Any], entries: Sequence[Entry]) -> None:
        self.driver.submitted(live)
        self.driver.notify(live.id, entries)

    def _forked(self, run_id: str, entries: Sequence[Entry]) -> None:
        self.driver.notify(run_id, entries)

    def _sent(self) -> None:
        self.driver.wake_inbox()


# -- the runtime of loops and flows that are given none --------------------------------------------


CURRENT: ContextVar[Runtime | None] = ContextVar("asterism_runtime", default=None)
"""The runtime of the enclosing ``asterism.open()``; None outside of one."""


@contextlib.asynccontextmanager
async def current_runtime(given: Runtime | None) -> AsyncIterator[Runtime]:
    """Yield the given runtime, else that of the enclosing ``asterism.open()``, else a new one over the default database."""
    if runtime := given or CURRENT.get():
        yield runtime
        return
    root = importlib.import_module("asterism.app.bootstrap")  # by name, since it is above this layer
    async with root.open_default() as runtime:
        yield runtime
