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
from asterism.kernel.machine import EffectResult, Machine, run_id_of
from asterism.kernel.run import Run
from asterism.machines.children import ChildBlocked, ChildEnded, ChildRequest, ChildSignaled, SignalChild, StartChild, child_run_id
from asterism.runtime.clock import Clock
from asterism.runtime.ports.performer import Report
from asterism.runtime.ports.store import InboxRow, RunRow, Store
from asterism.runtime.submission import submit_first

CHILD_POLL_S = 0.05
"""How often a command looks for a child that is being created."""
PARENT = "parent"
"""Who tells a child what is relayed to it."""


class ChildHost(Protocol):
    """What children need of the driver."""

    store: Store
    clock: Clock
    machines: Mapping[str, Machine[Any]]
    starters: dict[str, str]

    def wake_inbox(self) -> None:
        """Look at the inboxes now."""
        ...

    def submitted(self, live: Run[Any]) -> None:
        """A run was written from here."""
        ...

    def notify(self, run_id: str, entries: Any) -> None:
        """Tell the observers what is durable now."""
        ...

    async def drive_child(self, run_id: str, rested: Callable[[bool], None]) -> Run[Any]:
        """Drive a child to its end."""
        ...


class ChildPerformer:
    """Performs ``StartChild``."""

    def __init__(self, nursery: ChildHost) -> None:
        self._nursery = nursery

    async def perform(self, effect_id: str, request: ChildRequest, report: Report) -> EffectResult:
        """Create the child, or find it; drive it to its end; say meanwhile when only people can move it on.

        Raises:
            InvalidInput: this program has no such machine, or the id is another run's.
            RunNewer, StaleOwner, StoreUnavailable, JournalMismatch: as for any run.
        """
        child = child_run_id(effect_id)
        self._nursery.starters[child] = effect_id
        try:
            await self._create(child, effect_id, request.start)
            for relay_id, relay in request.signals.items():  # a cancel that was asked for before must not find its work begun
                await self._nursery.store.send(inbox_row(relay_id, relay, self._nursery.clock.now()))
            live = await self._nursery.drive_child(child, lambda resting: report(ChildBlocked(effect_id=effect_id, blocked=resting)))
        except (EditRefused, Refused) as refused:  # it was never written
            return ChildEnded(effect_id=effect_id, outcome="failed", reason=str(refused), code="refused")
        finally:
            del self._nursery.starters[child]
        result = live.memory.report()
        return ChildEnded(
            effect_id=effect_id,
            outcome=live.memory.outcome(),
            result=result,
            reason=result.get("reason", ""),
            code=result.get("code", ""),
        )

    async def _create(self, child_id: str, effect_id: str, effect: StartChild) -> None:
        store, now = self._nursery.store, self._nursery.clock.now()
        parent = await store.run(run_id_of(effect_id))
        if await self._is_there(child_id, parent.run_id):
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
            run_id=child_id,
            machine=machine.name,
            title=effect.title,
            state="",
            session=parent.session,
            parent=parent.run_id,
            root=parent.root,
            tenant=parent.tenant,
            actor=parent.actor,
            created_at=now,
            updated_at=now,
        )
        try:
            live, entries = await submit_first(store, machine, row, first)
        except InvalidInput:  # an owner that was robbed of the parent, and has not heard of it, may have created it meanwhile
            if not await self._is_there(child_id, parent.run_id):
                raise
            return
        self._nursery.submitted(live)
        self._nursery.notify(child_id, entries)

    async def _is_there(self, child_id: str, parent: str) -> bool:
        try:
            found = await self._nursery.store.run(child_id)
        except RunNotFound:
            return False
        if found.parent != parent:
            raise InvalidInput(f"there is a run {child_id} already, and it is no child of {parent}")
        return True


class SignalPerformer:
    """Performs ``SignalChild``."""

    def __init__(self, nursery: ChildHost) -> None:
        self._nursery = nursery

    async def perform(self, effect_id: str, request: SignalChild, report: Report) -> EffectResult:
        """Put the command into the child's inbox; a child that is being created is waited for."""
        row, starters = inbox_row(effect_id, request, self._nursery.clock.now()), self._nursery.starters
        is_awaited = True  # the task that starts the child may have been made in the same batch, and not have begun
        while is_awaited:
            try:
                await self._nursery.store.send(row)
            except RunNotFound:
                await asyncio.sleep(CHILD_POLL_S)
                is_awaited = row.run_id in starters
            else:
                self._nursery.wake_inbox()
                break
        return ChildSignaled(effect_id=effect_id)


def inbox_row(effect_id: str, relay: SignalChild, at: float) -> InboxRow:
    """The inbox row of a relayed command: its key is the effect's id, so it is there once however often it is sent."""
    body = msgspec.json.encode(relay.command).decode()
    return InboxRow(run_id=child_run_id(relay.effect_id), key=effect_id, actor=PARENT, kind=relay.command["type"], body=body, at=at)
