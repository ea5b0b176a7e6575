"""A run's state frozen to text, so that a long journal need not be replayed from its beginning.

A snapshot is a shortcut and never the truth. One that was made by other rules, or that cannot be read, is as
good as none: the journal is replayed whole.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self, TypeVar

import msgspec

from asterism.kernel.machine import Machine, kind_of
from asterism.kernel.run import Run

M = TypeVar("M")


class Freezable(Protocol):
    """What a memory may hold besides data: an object that can be written as data and be made of it again."""

    frozen_as: ClassVar[type[msgspec.Struct]]

    def freeze(self) -> msgspec.Struct:
        """It as data, of type ``frozen_as``, the order of everything included."""
        ...

    @classmethod
    def thaw(cls, frozen: Any) -> Self:
        """What was frozen."""
        ...


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it was after one of its entries.

    Attributes:
        run, seq: which entry.
        rules: fingerprint of the code that moved the run; other code does not read it.
        body: JSON ``{"state": …, "rules": …, "memory": …, "outstanding": …, "abandoned": …, "requests": …}``, as text.
    """

    run: str
    seq: int
    rules: str
    body: str


class _Body(msgspec.Struct):
    state: str
    rules: int
    memory: Any
    outstanding: dict[str, Any]
    abandoned: list[str]
    requests: dict[str, Any]


def freeze(run: Run[Any], rules: str) -> Snapshot | None:
    """A snapshot of the run as it is now, made by these rules; None where its memory cannot be written as data."""
    if not isinstance(run.memory, msgspec.Struct):
        return None
    body = _Body(str(run.state), run.rules, run.memory, run.outstanding, sorted(run.abandoned), run.fixed_requests)
    try:
        text = msgspec.json.encode(body, enc_hook=_frozen).decode()
    except (TypeError, ValueError, RecursionError):
        return None
    return Snapshot(run=run.id, seq=run.seq, rules=rules, body=text)


def thaw(machine: Machine[M], snapshot: Snapshot, rules: str) -> Run[M] | None:
    """The run that was frozen, without its story; None where it was made by other rules, or cannot be read."""
    if snapshot.rules != rules:
        return None
    effects = {kind_of(effect): effect for effect in machine.effects}
    run = Run(machine, snapshot.run)
    try:
        body = msgspec.json.decode(snapshot.body, type=_Body)
        run.state = machine.states(body.state)
        run.memory = msgspec.convert(body.memory, type(run.memory), dec_hook=_thawed)
        run.outstanding = {key: msgspec.convert(effect, effects[effect["type"]]) for key, effect in body.outstanding.items()}
        kinds = {key: machine.requests[type(run.outstanding[key])].fixed for key in body.requests}
        run.fixed_requests = {key: msgspec.convert(request, kinds[key]) for key, request in body.requests.items()}
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError, RecursionError):
        return None
    run.abandoned = set(body.abandoned)
    run.seq, run.rules = snapshot.seq, body.rules
    return run


def _frozen(it: Any) -> msgspec.Struct:
    if not hasattr(it, "freeze"):
        raise TypeError(f"a {type(it).__name__} cannot be frozen")
    return it.freeze()  # type: ignore[no-any-return]


def _thawed(kind: type[Freezable], data: Any) -> Freezable:
    return kind.thaw(msgspec.convert(data, kind.frozen_as))
