"""The conversion of entries to records and back, with upgrades of earlier schema versions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from asterism.engine.kernel.data import MAX_DEPTH, check_json
from asterism.engine.kernel.journal import SCHEMA_VERSION, Entry, JournalMismatch, Record
from asterism.engine.kernel.machine import Event, Machine, kind_of
from asterism.engine.kernel.permissions import LOWEST, Permissions
from asterism.errors import InvalidInput

_ENCODER = msgspec.json.Encoder()
MAX_COMMAND_DEPTH = MAX_DEPTH + 10
"""Bound on nested lists and objects in an inbox row: ``MAX_DEPTH`` for the value in the command, and
10 levels for the command around it."""

UPGRADES: dict[int, Callable[[Record], Record]] = {}
"""For each schema version, the function that converts a record to the next version. The versions before
8 were never released and have none."""


def is_readable(version: int) -> bool:
    """Return whether records of a schema version can be read."""
    return version == SCHEMA_VERSION or version in UPGRADES


def upgraded(record: Record) -> Record:
    """Return a record in today's schema version; the stored record does not change.

    Raises:
        JournalMismatch: no converter leads from its version to today's.
    """
    while record.version != SCHEMA_VERSION:  # bounded: each converter leads to the next version
        convert = UPGRADES.get(record.version)
        if convert is None:
            raise JournalMismatch(record.run_id, record.seq, f"schema version {record.version}, but this program reads {SCHEMA_VERSION}")
        record = msgspec.structs.replace(convert(record), version=record.version + 1)
    return record


class Body(msgspec.Struct):
    """The typed part of an entry, as JSON holds it."""

    event: Any
    effects: Any = ()
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    rules: Annotated[int, msgspec.Meta(ge=0)] = 0
    permissions: Permissions = LOWEST


class Packer:
    """The conversion of entries of one machine to records and back."""

    def __init__(self, machine: Machine[Any]) -> None:
        self._machine = machine
        self._events = {kind_of(event): event for event in machine.events}
        self._commands = {kind_of(event): event for event in machine.events if event.from_outside}
        self._effects = {kind_of(effect): effect for effect in machine.effects}

    def pack(self, entry: Entry) -> Record:
        """Return the record of an entry.

        Raises:
            InvalidInput: a text in the entry is not valid Unicode.
        """
        body: dict[str, Any] = {"event": entry.event}
        if entry.effects:
            body["effects"] = entry.effects
        if entry.side_effects:
            body["facts"] = entry.side_effects
        if entry.rules:
            body["rules"] = entry.rules
        if entry.permissions != LOWEST:
            body["permissions"] = entry.permissions
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
        """Return the entry of a record.

        Raises:
            JournalMismatch: the record has an unknown schema version, or does not belong to this
                machine.
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
            permissions=body.permissions,
        )

    def event(self, kind: str, body: str) -> Event:
        """Return an event from its kind and JSON text, as inbox rows hold it.

        Raises:
            ValueError: the machine has no such event, or accepts none of this kind from outside; or it is
                nested too deeply to be journaled within an entry.
        """
        try:
            event = msgspec.json.decode(body, type=self._commands[kind])
            check_json(msgspec.json.decode(body), kind, MAX_COMMAND_DEPTH)
        except (KeyError, UnicodeError, RecursionError, InvalidInput, msgspec.MsgspecError) as error:
            raise ValueError(f"{self._machine.name} cannot read {kind} {body[:80]!r}: {error}") from None
        return event


@functools.cache
def packer(machine: Machine[Any]) -> Packer:
    """Return the packer of a machine."""
    return Packer(machine)


def event_body(event: Event) -> str:
    """Return the JSON text of an event, as inbox rows hold it.

    Raises:
        InvalidInput: a text in the event is not valid Unicode.
    """
    return _json(event)


def _json(value: Any) -> str:
    try:
        return _ENCODER.encode(value).decode()
    except UnicodeEncodeError:  # a terminal decodes bytes that are not UTF-8 to lone surrogates
        raise InvalidInput("a text to be stored is not valid Unicode; give it in UTF-8") from None
