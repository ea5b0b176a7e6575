"""Child runs: created once, driven in the process that drives their parent, told what goes downwards.

A child has its own journal and its own recovery. It lives as long as its parent's session does: when that parks or
lets go, so does the child, and whoever drives the root next finds both. Mail for a child is its own inbox's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from asterism.constellation.edits import EditRefused
from asterism.errors import InvalidInput, Refused, RunNotFound
from asterism.kernel.machine import Machine, Outcome, run_of
from asterism.kernel.run import Run
from asterism.machines.children import ChildEnded, ChildRequest, ChildRested, Relay, Relayed, StartChild, child_of
from asterism.runtime.clock import Clock
from asterism.runtime.ports.performer import Report
from asterism.runtime.ports.store import InboxRow, RunRow, Store
from asterism.runtime.submission import submit_first

LOOK_S = 0.05
"""How often a command looks for a child that is being created."""
PARENT = "parent"
"""Who tells a child what is relayed to it."""


class Nursery(Protocol):
    """What children need of the driver."""

    store: Store
    clock: Clock
    machines: Mapping[str, Machine[Any]]
    starters: dict[str, str]

    def look(self) -> None:
        """Look at the inboxes now."""
        ...

    def submitted(self, live: Run[Any]) -> None:
        """A run was written from here."""
        ...

    def tell(self, run: str, entries: Any) -> None:
        """Tell the observers what is durable now."""
        ...

    async def drive_child(self, run: str, rested: Callable[[bool], None]) -> Run[Any]:
        """Drive a child to its end."""
        ...


class ChildPerformer:
    """Performs ``StartChild``."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery

    async def perform(self, effect_id: str, request: ChildRequest, report: Report) -> Outcome:
        """Create the child, or find it; drive it to its end; say meanwhile when only people can move it on.

        Raises:
            InvalidInput: this program has no such machine, or the id is another run's.
            RunNewer, StaleOwner, StoreUnavailable, JournalMismatch: as for any run.
        """
        child = child_of(effect_id)
        self._nursery.starters[child] = effect_id
        try:
            await self._create(child, effect_id, request.start)
            for relay_id, relay in request.relayed.items():  # a cancel that was asked for before must not find its work begun
                await self._nursery.store.send(letter(relay_id, relay, self._nursery.clock.now()))
            live = await self._nursery.drive_child(child, lambda resting: report(ChildRested(of=effect_id, resting=resting)))
        except (EditRefused, Refused) as refused:  # it was never written
            return ChildEnded(effect=effect_id, outcome="failed", reason=str(refused), code="refused")
        finally:
            del self._nursery.starters[child]
        result = live.memory.report()
        return ChildEnded(
            effect=effect_id,
            outcome=live.memory.outcome(),
            result=result,
            reason=result.get("reason", ""),
            code=result.get("code", ""),
        )

    async def _create(self, child: str, effect_id: str, effect: StartChild) -> None:
        store, now = self._nursery.store, self._nursery.clock.now()
        parent = await store.run(run_of(effect_id))
        if await self._is_there(child, parent.run):
            return
        machine = self._nursery.machines.get(effect.machine)
        if machine is None:
            known = ", ".join(self._nursery.machines)
            raise InvalidInput(
                f"it needs a {effect.machine}, and this runtime drives only: {known}; asterism.open() opens one that drives all"
            )
        if machine.starts is None:
            raise InvalidInput(f"a {machine.name} cannot be started by another run")
        first = machine.starts(effect.start)
        row = RunRow(
            run=child,
            machine=machine.name,
            title=effect.title,
            state="",
            session=parent.session,
            parent=parent.run,
            root=parent.root,
            tenant=parent.tenant,
            actor=parent.actor,
            created_at=now,
            updated_at=now,
        )
        try:
            live, entries = await submit_first(store, machine, row, first)
        except InvalidInput:  # an owner that was robbed of the parent, and has not heard of it, may have created it meanwhile
            if not await self._is_there(child, parent.run):
                raise
            return
        self._nursery.submitted(live)
        self._nursery.tell(child, entries)

    async def _is_there(self, child: str, parent: str) -> bool:
        try:
            found = await self._nursery.store.run(child)
        except RunNotFound:
            return False
        if found.parent != parent:
            raise InvalidInput(f"there is a run {child} already, and it is no child of {parent}")
        return True


class RelayPerformer:
    """Performs ``Relay``."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery

    async def perform(self, effect_id: str, request: Relay, report: Report) -> Outcome:
        """Put the command into the child's inbox; a child that is being created is waited for."""
        row, starters = letter(effect_id, request, self._nursery.clock.now()), self._nursery.starters
        is_awaited = True  # the task that starts the child may have been made in the same batch, and not have begun
        while is_awaited:
            try:
                await self._nursery.store.send(row)
            except RunNotFound:
                await asyncio.sleep(LOOK_S)
                is_awaited = row.run in starters
            else:
                self._nursery.look()
                break
        return Relayed(effect=effect_id)


def letter(effect_id: str, relay: Relay, at: float) -> InboxRow:
    """The inbox row of a relayed command: its key is the effect's id, so it is there once however often it is sent."""
    body = msgspec.json.encode(relay.command).decode()
    return InboxRow(run=child_of(relay.target), key=effect_id, actor=PARENT, kind=relay.command["type"], body=body, at=at)
