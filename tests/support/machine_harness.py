"""A test harness for a machine: feeds it events without a driver."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from asterism.engine.control.run_control import Answered, AskPerson, BatchEnded, CancelEffect, EffectCancelled, RunMemory
from asterism.engine.kernel.guards import digest_of
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Event, Machine
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.permissions import ALL, LOWEST, Permissions
from asterism.engine.kernel.run import Run

M = TypeVar("M", bound=RunMemory)


def as_shown(run: Run[Any], event: Event) -> Event:
    """Return an answer with the digest of what its question shows, as a door writes it that has shown it."""
    asked = run.outstanding.get(event.effect_id) if isinstance(event, Answered) and not event.digest else None
    return msgspec.structs.replace(event, digest=digest_of(asked.subject)) if isinstance(asked, AskPerson) else event


class MachineHarness(Generic[M]):
    """One run of a machine.

    Args:
        machine: the machine.
        first: first event of the run.
        at: start of the run in seconds since the epoch.
        permissions: those of who submits it.
    """

    def __init__(self, machine: Machine[M], first: Event, at: float, permissions: Permissions = ALL) -> None:
        self.run: Run[M] = Run(machine, "r")
        self.entries: list[Entry] = []
        self.now = at
        self.take(first, permissions=permissions)
        self.drain()

    @property
    def state(self) -> str:
        return str(self.run.state)

    @property
    def memory(self) -> M:
        return self.run.memory

    def take(self, event: Event, actor: str = "me", key: str = "", permissions: Permissions | None = None) -> Entry | None:
        may = (ALL if event.from_outside else LOWEST) if permissions is None else permissions
        entry = self.run.take(as_shown(self.run, event), at=self.now, actor=actor, key=key, permissions=may)
        if entry:
            self.entries.append(entry)
        return entry

    def note(self, event: Event, why: str) -> None:
        self.entries.append(self.run.note(event, at=self.now, actor="me", key="", why=why))

    def drain(self) -> Entry | None:
        """End the batch as a driver does, and repeat while the machine asks for it at once."""
        entry = self.take(BatchEnded(), actor="system")
        for _ in range(10):
            if self.memory.due_at() != 0.0:
                break
            self.take(BatchEnded(), actor="system")
        return entry

    def batch(self, *events: Event) -> None:
        for event in events:
            self.take(event)
        self.drain()

    def wait_until(self, at: float) -> None:
        self.now = at
        self.drain()

    def finish_cancellations(self) -> None:
        """Finish cancelled effects as a driver does: first the result of the effect, then that of its cancellation."""
        for effect_id, effect in list(self.run.outstanding.items()):
            if not isinstance(effect, CancelEffect):
                continue
            target = self.run.outstanding.get(effect.effect_id)
            if target is not None:
                self.take(target.interrupted(effect.effect_id, "called off"), actor="system")
            self.take(EffectCancelled(effect_id=effect_id), actor="system")
        self.drain()

    def replayed(self, machine: Machine[M] | None = None) -> Run[M]:
        """The run as its packed journal gives it back, to a program with another version of the machine."""
        machine = machine or self.run.machine
        records = [packer(machine).pack(entry) for entry in self.entries]
        again = Run(machine, "r")
        again.replay(packer(machine).unpack(msgspec.json.decode(msgspec.json.encode(it), type=type(it))) for it in records)
        return again
