"""How an entry becomes a record, and a record an entry again; records of earlier versions are brought up to date as they are read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from asterism.errors import InvalidInput
from asterism.kernel.data import MAX_DEPTH, check_json
from asterism.kernel.journal import SCHEMA_VERSION, Entry, JournalMismatch, Record
from asterism.kernel.machine import Event, Machine, kind_of

_ENCODER = msgspec.json.Encoder()
MAX_COMMAND_DEPTH = MAX_DEPTH + 10
"""Lists and objects within each other in an inbox row: those of a value that its sender has checked, and what is around it."""

UPGRADES: dict[int, Callable[[Record], Record]] = {}
"""By version, the step that makes a record of that version one of the next. Version 1 was never released and has none."""


def is_readable(version: int) -> bool:
    """Return whether records of a schema version can be read."""
    return version == SCHEMA_VERSION or version in UPGRADES


def upgraded(record: Record) -> Record:
    """A record in today's form; what is stored stays as it was written.

    Raises:
        JournalMismatch: no step leads from its version to today's.
    """
    while record.version != SCHEMA_VERSION:  # bounded: each step leads one version on
        step = UPGRADES.get(record.version)
        if step is None:
            raise JournalMismatch(record.run_id, record.seq, f"schema version {record.version}, this program reads {SCHEMA_VERSION}")
        record = msgspec.structs.replace(step(record), version=record.version + 1)
    return record


class Body(msgspec.Struct):
    """The packed form of an entry's typed half."""

    event: Any
    effects: Any = ()
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    rules: Annotated[int, msgspec.Meta(ge=0)] = 0


class Packer:
    """Packs entries of one machine into records, and back."""

    def __init__(self, machine: Machine[Any]) -> None:
        self._machine = machine
        self._events = {kind_of(event): event for event in machine.events}
        self._commands = {kind_of(event): event for event in machine.events if event.from_outside}
        self._effects = {kind_of(effect): effect for effect in machine.effects}

    def pack(self, entry: Entry) -> Record:
        """The record of an entry.

        Raises:
            InvalidInput: a text in it is not Unicode.
        """
        body: dict[str, Any] = {"event": entry.event}
        if entry.effects:
            body["effects"] = entry.effects
        if entry.side_effects:
            body["facts"] = entry.side_effects
        if entry.rules:
            body["rules"] = entry.rules
        return Record(
            run_id=entry.run_id,
            seq=entry.seq,
            at=entry.at,
            actor=entry.actor,
            kind=kind_of(entry.event),
            state=str(entry.state),
            body=_json(body),
            key=entry.key,
            note=entry.note,
        )

    def unpack(self, record: Record) -> Entry:
        """The entry of a record.

        Raises:
            JournalMismatch: the record is of another version, or is not one of this machine's.
        """
        try:
            record = upgraded(record)
            at = msgspec.convert(record.at, float)
            body = msgspec.json.decode(record.body, type=Body)
            event = msgspec.convert(body.event, self._events[record.kind])
            effects = tuple(msgspec.convert(effect, self._effects[effect["type"]]) for effect in body.effects)
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise JournalMismatch(record.run_id, record.seq, f"cannot be read ({type(error).__name__}: {error})") from error
        return Entry(
            run_id=record.run_id,
            seq=record.seq,
            at=at,
            actor=record.actor,
            event=event,
            state=record.state,
            effects=effects,
            key=record.key,
            note=record.note,
            side_effects=body.facts,
            rules=body.rules,
        )

    def event(self, kind: str, body: str) -> Event:
        """An event from its kind and JSON text, as inbox rows carry it.

        Raises:
            ValueError: not an event of this machine, or none that comes from outside; or nested so deep that what was read could
                not be written again, with the entry around it.
        """
        try:
            event = msgspec.json.decode(body, type=self._commands[kind])
            check_json(msgspec.json.decode(body), kind, MAX_COMMAND_DEPTH)
        except (KeyError, UnicodeError, RecursionError, InvalidInput, msgspec.MsgspecError) as error:
            raise ValueError(f"{self._machine.name} cannot read {kind} {body[:80]!r}: {error}") from None
        return event


@functools.cache
def packer(machine: Machine[Any]) -> Packer:
    """The packer of a machine."""
    return Packer(machine)


def event_body(event: Event) -> str:
    """The JSON text of an event, as inbox rows carry it.

    Raises:
        InvalidInput: a text in it is not Unicode.
    """
    return _json(event)


def _json(value: Any) -> str:
    try:
        return _ENCODER.encode(value).decode()
    except UnicodeEncodeError:  # what a terminal gives for bytes that are not UTF-8
        raise InvalidInput("a text to be stored is not valid Unicode; give it in UTF-8") from None
