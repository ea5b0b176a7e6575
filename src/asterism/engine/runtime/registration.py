"""A program's own machine, with the performers of its effects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from asterism.engine.control.children import SignalChild, StartChild
from asterism.engine.control.run_control import CancelEffect, OwnershipAcquired, RunMemory
from asterism.engine.kernel.journal import check_known
from asterism.engine.kernel.machine import Effect, Machine, kind_of
from asterism.engine.ports.performer import Performer
from asterism.engine.ports.store import RunRow
from asterism.errors import InvalidInput, UnknownMachine

_BUILT_IN = (StartChild, SignalChild, CancelEffect)
"""Effects that every driver performs by itself."""
_MEMORY_METHODS = ("wake_at", "has_pending_work", "recovery_of", "count_usage", "outcome", "result", "report")
"""Methods of a memory that the driver calls."""


@dataclass(frozen=True)
class Registration:
    """One machine and its performers, for ``asterism.open(machines=[…])``.

    Args:
        machine: made by ``asterism.engine.control.define_machine``.
        performers: by kind of effect, an object that performs effects of this kind. They serve this
            machine only.
        view: class that shows its runs, made from ``asterism.views.BaseView``; None for the rows common
            to all machines.

    Raises:
        InvalidInput: the machine cannot be driven, or its performers do not fit its effects.
    """

    machine: Machine[Any]
    performers: Mapping[type[Effect], Performer] = field(default_factory=dict)
    view: type[Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.machine, Machine):
            raise InvalidInput(f"a registration needs a machine, made by asterism.engine.control.define_machine(…); not {self.machine!r}")
        for problem in (*_problems(self.machine, self.performers), *_unfit(self.view)):
            raise InvalidInput(f"machine {self.machine.name!r}: {problem}")


def registered(known: Mapping[str, Machine[Any]], registrations: Iterable[Registration]) -> dict[str, Machine[Any]]:
    """Return the known machines and the registered ones, by name.

    Raises:
        InvalidInput: two machines have the same name, or an item is not a registration.
    """
    found = dict(known)
    for number, registration in enumerate(registrations):
        if not isinstance(registration, Registration):
            raise InvalidInput(f"machines[{number}]: {registration!r} is not a Registration; give Registration(machine, performers={{…}})")
        machine = registration.machine
        if machine.name in found:
            raise InvalidInput(f"machine {machine.name!r}: another machine has this name; choose another name")
        found[machine.name] = machine
    return found


def idle_kinds(machines: Iterable[Machine[Any]]) -> tuple[str, ...]:
    """Return the kinds of the events of machines that are no progress of a run, for ``Store.acquire_due``."""
    return tuple(sorted({kind_of(event) for machine in machines for event in machine.events if not event.is_progress}))


def machine_of(row: RunRow, machines: Mapping[str, Machine[Any]]) -> Machine[Any]:
    """Return the machine of a run.

    Raises:
        UnknownMachine: these machines do not include it.
        RunNewer: a newer program has written to the run.
    """
    found = machines.get(row.machine)
    if found is None:
        raise UnknownMachine(row.run_id, row.machine)
    check_known(row.run_id, row.version, found)
    return found


def _problems(machine: Machine[Any], performers: Mapping[type[Effect], Performer]) -> Iterator[str]:
    memory = machine.memory()
    if not isinstance(memory, RunMemory) or any(OwnershipAcquired not in rows for rows in machine.table.values()):
        yield "it has no run control; make it with asterism.engine.control.define_machine(…), with a RunMemory as its memory"
    elif type(memory).result is RunMemory.result:
        yield f"its memory {type(memory).__name__} has no method result; define one that returns the result of the run"
    for name in _MEMORY_METHODS if isinstance(memory, RunMemory) else ():
        if not callable(getattr(type(memory), name)):
            yield f"{name} of its memory {type(memory).__name__} is not a method; the driver calls it"
    needed = [kind for kind in machine.effects if kind.performed_outside and kind not in _BUILT_IN]
    for kind in needed:
        if kind.interrupted is Effect.interrupted:
            yield f"effect {kind.__name__} has no method interrupted; define one that returns its result when it is cancelled"
        if kind not in performers:
            yield f"effect {kind.__name__} has no performer; give one in performers={{{kind.__name__}: …}}"
    for kind, performer in performers.items():
        if kind not in needed:
            why = "needs none" if kind in machine.effects else "is not one of its declared effects"
            yield f"there is a performer for {getattr(kind, '__name__', kind)}, which {why}; leave it out"
        elif isinstance(performer, type) or not callable(getattr(performer, "perform", None)):
            yield f"the performer of {kind.__name__} is {performer!r}; give an object with a method perform"


def _unfit(view: type[Any] | None) -> Iterator[str]:
    if view is not None and not (callable(getattr(view, "at", None)) and callable(getattr(view, "read", None))):
        yield f"its view is {view!r}; give a class with the methods at and read, made from asterism.views.BaseView"
