"""A snapshot of a run as text, so that a long journal need not be replayed from its beginning.

The journal stays the truth. A snapshot that other code made, or that cannot be read, is ignored and
the whole journal is replayed.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self, TypeVar

import msgspec

from asterism.engine.kernel.machine import Machine, kind_of
from asterism.engine.kernel.run import Run

M = TypeVar("M")


class Snapshotable(Protocol):
    """An object in a memory that is not plain data, but can be converted to data and back."""

    snapshot_type: ClassVar[type[msgspec.Struct]]

    def to_snapshot(self) -> msgspec.Struct:
        """Return the object as data of type ``snapshot_type``; dictionaries keep their order."""
        ...

    @classmethod
    def from_snapshot(cls, snapshot: Any) -> Self:
        """Return the object of a snapshot."""
        ...


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it was after one of its entries.

    Attributes:
        run_id, seq: the run and the number of the entry.
        code_version: fingerprint of the code that made the snapshot; other code ignores it.
        body: JSON ``{"state": …, "rules": …, "memory": …, "outstanding": …, "abandoned": …,
            "requests": …, "submitters": […]}``, as text.
    """

    run_id: str = msgspec.field(name="run")
    seq: int
    code_version: str = msgspec.field(name="rules")
    body: str


class _Body(msgspec.Struct):
    state: str
    rules: int
    memory: Any
    outstanding: dict[str, Any]
    abandoned: list[str]
    requests: dict[str, Any]
    submitters: tuple[str, ...] = ()


def take_snapshot(run: Run[Any], code_version: str) -> Snapshot | None:
    """Return a snapshot of a run by this code version; None if its memory cannot become data."""
    if not isinstance(run.memory, msgspec.Struct):
        return None
    body = _Body(str(run.state), run.rules, run.memory, run.outstanding, sorted(run.abandoned), run.fixed_requests, run.submitters)
    try:
        text = msgspec.json.encode(body, enc_hook=_encode_object).decode()
    except (TypeError, ValueError, RecursionError):
        return None
    return Snapshot(run_id=run.id, seq=run.seq, code_version=code_version, body=text)


def restore_snapshot(machine: Machine[M], snapshot: Snapshot, code_version: str) -> Run[M] | None:
    """Return the run of a snapshot, without its history.

    Return None if other code made the snapshot or it cannot be read.
    """
    if snapshot.code_version != code_version:
        return None
    effects = {kind_of(effect): effect for effect in machine.effects}
    run = Run(machine, snapshot.run_id)
    try:
        body = msgspec.json.decode(snapshot.body, type=_Body)
        run.state = machine.states(body.state)
        run.memory = msgspec.convert(body.memory, type(run.memory), dec_hook=_decode_object)
        run.outstanding = {key: msgspec.convert(effect, effects[effect["type"]]) for key, effect in body.outstanding.items()}
        kinds = {key: machine.requests[type(run.outstanding[key])].fixed for key in body.requests}
        run.fixed_requests = {key: msgspec.convert(request, kinds[key]) for key, request in body.requests.items()}
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError, RecursionError):
        return None
    run.abandoned = set(body.abandoned)
    run.seq, run.rules, run.submitters = snapshot.seq, body.rules, body.submitters
    return run


def _encode_object(it: Any) -> msgspec.Struct:
    if not hasattr(it, "to_snapshot"):
        raise TypeError(f"a {type(it).__name__} has no snapshot")
    return it.to_snapshot()  # type: ignore[no-any-return]


def _decode_object(kind: type[Snapshotable], data: Any) -> Snapshotable:
    return kind.from_snapshot(msgspec.convert(data, kind.snapshot_type))
