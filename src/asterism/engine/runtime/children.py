"""Child runs: created once, driven in the process of their parent, and signaled by it.

A child has its own journal and its own recovery. It is owned for as long as its parent: when the
parent parks or is released, so is the child, and the next owner of the root acquires both. A child
has its own inbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from asterism.engine.control.children import ChildBlocked, ChildEnded, ChildRequest, ChildSignaled, SignalChild, StartChild, child_run_id
from asterism.engine.kernel.machine import EffectResult, run_id_of
from asterism.engine.kernel.run import Run
from asterism.engine.ports.performer import Report
from asterism.engine.ports.store import InboxRow, RunRow, Store
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.form import Form
from asterism.engine.runtime.submission import submit_first
from asterism.errors import InvalidInput, Refused, RunNotFound

CHILD_POLL_S = 0.05
"""Seconds between two attempts to signal a child that is being created."""
PARENT = "parent"
"""Actor of the signals that a child receives from its parent."""


class ChildHost(Protocol):
    """The part of the driver that children need."""

    store: Store
    clock: Clock
    forms: Mapping[str, Form]
    starters: dict[str, str]

    def wake_inbox(self) -> None:
        """Read the inbox now."""
        ...

    def submitted(self, live: Run[Any]) -> None:
        """Remember the live state of a run that this process wrote."""
        ...

    def notify(self, run_id: str, entries: Any) -> None:
        """Notify the observers of entries that are durable now."""
        ...

    async def drive_child(self, run_id: str, on_blocked: Callable[[bool], None]) -> Run[Any]:
        """Drive a child to its end."""
        ...


class ChildPerformer:
    """Performs ``StartChild``."""

    def __init__(self, host: ChildHost) -> None:
        self._host = host

    async def perform(self, effect_id: str, request: ChildRequest, report: Report) -> EffectResult:
        """Create or find the child and drive it to its end; report when only people can advance it.

        Raises:
            InvalidInput: this program lacks its machine, or another run has the id.
            RunNewer, StaleOwner, StoreUnavailable, JournalMismatch: as for any run.
        """

        def note_blocked(blocked: bool) -> None:  # noqa: FBT001 - the news itself
            report(ChildBlocked(effect_id=effect_id, blocked=blocked))

        child = child_run_id(effect_id)
        self._host.starters[child] = effect_id
        try:
            await self._create(child, effect_id, request.start)
            for signal_id, signal in request.signals.items():  # first: a cancel sent earlier must prevent its work
                await self._host.store.send(inbox_row(signal_id, signal, self._host.clock.now()))
            live = await self._host.drive_child(child, note_blocked)
        except Refused as refused:  # it was never written
            return ChildEnded(effect_id=effect_id, outcome="failed", reason=str(refused), code="refused")
        finally:
            del self._host.starters[child]
        memory = live.memory
        code, why = ("", "") if memory.code == "finished" else (memory.code, memory.why)
        return ChildEnded(
            effect_id=effect_id, outcome=memory.outcome(), result=memory.report(), reason=why, code=code, edited=memory.edited
        )

    async def _create(self, child_id: str, effect_id: str, effect: StartChild) -> None:
        store, now = self._host.store, self._host.clock.now()
        parent = await store.run(run_id_of(effect_id))
        if await self._exists(child_id, parent.run_id):
            return
        form = self._host.forms.get(effect.machine)
        if form is None:
            known = ", ".join(self._host.forms)
            raise InvalidInput(
                f"it needs a {effect.machine}, and this runtime drives only: {known}; asterism.open() opens one that drives all"
            )
        machine = form.machine
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
        except InvalidInput:  # the former owner of the parent may have created the child after losing the parent
            if not await self._exists(child_id, parent.run_id):
                raise
            return
        self._host.submitted(live)
        self._host.notify(child_id, entries)

    async def _exists(self, child_id: str, parent: str) -> bool:
        try:
            found = await self._host.store.run(child_id)
        except RunNotFound:
            return False
        if found.parent != parent:
            raise InvalidInput(f"run {child_id} exists already, and is not a child of {parent}")
        return True


class SignalPerformer:
    """Performs ``SignalChild``."""

    def __init__(self, host: ChildHost) -> None:
        self._host = host

    async def perform(self, effect_id: str, request: SignalChild, report: Report) -> EffectResult:
        """Put the command into the child's inbox; wait for a child that is being created."""
        row, starters = inbox_row(effect_id, request, self._host.clock.now()), self._host.starters
        is_awaited = True  # the task that starts the child may be of the same batch, and may not have begun
        while is_awaited:
            try:
                await self._host.store.send(row)
            except RunNotFound:
                await asyncio.sleep(CHILD_POLL_S)
                is_awaited = row.run_id in starters
            else:
                self._host.wake_inbox()
                break
        return ChildSignaled(effect_id=effect_id)


def inbox_row(effect_id: str, signal: SignalChild, at: float) -> InboxRow:
    """Return the inbox row of a signal.

    Its key is the effect's id, so repeated sending inserts it once.
    """
    body = msgspec.json.encode(signal.command).decode()
    return InboxRow(run_id=child_run_id(signal.effect_id), key=effect_id, actor=PARENT, kind=signal.command["type"], body=body, at=at)
