"""The form of a run: its machine with the performers of its effects, and what shows and checks its runs."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asterism.engine.control.children import SignalChild, StartChild
from asterism.engine.control.run_control import CancelEffect, OwnershipAcquired, RunMemory
from asterism.engine.kernel.journal import check_known
from asterism.engine.kernel.machine import Effect, Machine, kind_of
from asterism.engine.kernel.run import Run
from asterism.engine.ports.performer import Performer
from asterism.engine.ports.store import RunRow
from asterism.errors import InvalidInput, UnknownMachine

_BUILT_IN = (StartChild, SignalChild, CancelEffect)
"""Effects that every driver performs by itself."""
_MEMORY_METHODS = ("wake_at", "has_pending_work", "recovery_of", "count_usage", "outcome", "result", "report")
"""Methods of a memory that the driver calls."""


@dataclass(frozen=True)
class Form:
    """A form of runs, for ``asterism.open(machines=[…])``. The constellation, the loop and the conversation are forms, too.

    A class may be given as ``module:Class``; it is imported when it is needed.

    Args:
        machine: made by ``asterism.engine.control.define_machine``.
        performers: by kind of effect, an object that performs effects of this kind. They serve this
            form only. A client needs none.
        view: class that shows its runs, made from ``asterism.views.BaseView``; None for the rows common
            to all machines.
        history: class that reads its runs for ``show``, ``log`` and ``why``, made from
            ``asterism.views.text.history.RunHistory``; None for what the rows of the view say.
        checks: its own invariants, for worlds: functions that return what is wrong with a run, in words, or an empty
            text. Or a class made from ``asterism.testing.checks.run_checks.RunChecks``.

        matches: says whether the match and the values of a wait fit the data of an event; None for a machine whose runs
            wait for no event.

    Raises:
        InvalidInput: the machine cannot be driven, or its performers do not fit its effects.
    """

    machine: Machine[Any]
    performers: Mapping[type[Effect], Performer] = field(default_factory=dict)
    view: type[Any] | str | None = None
    history: type[Any] | str | None = None
    checks: Sequence[Callable[[Run[Any]], str]] | type[Any] = ()
    matches: Callable[[dict[str, Any], Any], bool] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.machine, Machine):
            raise InvalidInput(f"a form needs a machine, made by asterism.engine.control.define_machine(…); not {self.machine!r}")
        for problem in (*_problems(self.machine, self.performers), *_unfit(self.view)):
            raise InvalidInput(f"machine {self.machine.name!r}: {problem}")

    @functools.cached_property
    def view_class(self) -> type[Any] | None:
        """Return the class that shows its runs."""
        return _imported(self.view)

    @functools.cached_property
    def history_class(self) -> type[Any] | None:
        """Return the class that reads its runs."""
        return _imported(self.history)

    def performed_by(self, performers: Mapping[type[Effect], Performer]) -> Form:
        """Return this form with those of the performers that its effects need, in addition to its own."""
        needed = {kind: it for kind, it in performers.items() if kind in self.machine.effects}
        return dataclasses.replace(self, performers={**self.performers, **needed})

    def check_performers(self) -> None:
        """Check that each effect has a performer.

        Raises:
            InvalidInput: one has none.
        """
        for kind in _performed(self.machine):
            if kind not in self.performers:
                words = f"effect {kind.__name__} has no performer; give one in performers={{{kind.__name__}: …}}"
                raise InvalidInput(f"machine {self.machine.name!r}: {words}")


def by_name(known: Iterable[Form], more: Iterable[Form] = ()) -> dict[str, Form]:
    """Return forms by the name of their machine: those that are known, and a program's own.

    Raises:
        InvalidInput: two machines have the same name, or an item is not a form.
    """
    forms = {form.machine.name: form for form in known}
    for number, form in enumerate(more):
        if not isinstance(form, Form):
            raise InvalidInput(f"machines[{number}]: {form!r} is not a Form; give Form(machine, performers={{…}})")
        name = form.machine.name
        if name in forms:
            raise InvalidInput(f"machine {name!r}: another machine has this name; choose another name")
        forms[name] = form
    return forms


def idle_kinds(forms: Iterable[Form]) -> tuple[str, ...]:
    """Return the kinds of the events of forms that are no progress of a run, for ``Store.acquire_due``."""
    return tuple(sorted({kind_of(event) for form in forms for event in form.machine.events if not event.is_progress}))


def form_of(row: RunRow, forms: Mapping[str, Form]) -> Form:
    """Return the form of a run.

    Raises:
        UnknownMachine: these forms do not include it.
        RunNewer: a newer program has written to the run.
    """
    form = forms.get(row.machine)
    if form is None:
        raise UnknownMachine(row.run_id, row.machine)
    check_known(row.run_id, row.version, form.machine)
    return form


def _imported(named: type[Any] | str | None) -> type[Any] | None:
    if not isinstance(named, str):
        return named
    module, _, name = named.partition(":")
    imported: type[Any] = getattr(importlib.import_module(module), name)
    return imported


def _performed(machine: Machine[Any]) -> list[type[Effect]]:
    """Return the effects of a machine that need a performer of its form."""
    return [kind for kind in machine.effects if kind.performed_outside and kind not in _BUILT_IN]


def _problems(machine: Machine[Any], performers: Mapping[type[Effect], Performer]) -> Iterator[str]:
    memory = machine.memory()
    if not isinstance(memory, RunMemory) or any(OwnershipAcquired not in rows for rows in machine.table.values()):
        yield "it has no run control; make it with asterism.engine.control.define_machine(…), with a RunMemory as its memory"
    elif type(memory).result is RunMemory.result:
        yield f"its memory {type(memory).__name__} has no method result; define one that returns the result of the run"
    for name in _MEMORY_METHODS if isinstance(memory, RunMemory) else ():
        if not callable(getattr(type(memory), name)):
            yield f"{name} of its memory {type(memory).__name__} is not a method; the driver calls it"
    needed = _performed(machine)
    for kind in needed:
        if kind.interrupted is Effect.interrupted:
            yield f"effect {kind.__name__} has no method interrupted; define one that returns its result when it is cancelled"
    for kind, performer in performers.items():
        if kind not in needed:
            why = "needs none" if kind in machine.effects else "is not one of its declared effects"
            yield f"there is a performer for {getattr(kind, '__name__', kind)}, which {why}; leave it out"
        elif isinstance(performer, type) or not callable(getattr(performer, "perform", None)):
            yield f"the performer of {kind.__name__} is {performer!r}; give an object with a method perform"


def _unfit(view: type[Any] | str | None) -> Iterator[str]:
    if isinstance(view, type) and not (callable(getattr(view, "at", None)) and callable(getattr(view, "read", None))):
        yield f"its view is {view!r}; give a class with the methods at and read, made from asterism.views.BaseView"
