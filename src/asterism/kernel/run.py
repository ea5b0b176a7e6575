"""A run: one machine instance with its own journal, taken forward event by event.

Pure: it makes entries and never writes them. The live step and the replay are the same code.
"""

from __future__ import annotations

import collections
import enum
import functools
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from asterism.errors import AsterismError, IllegalTransition, InvalidInput
from asterism.kernel.journal import SCHEMA_VERSION, Entry, Record, story_line
from asterism.kernel.machine import Effect, Event, Machine, Outcome, Turn

M = TypeVar("M")

STORY_LENGTH = 8


class JournalMismatch(AsterismError):
    """Replaying a journal did not give what the journal says; the run cannot be trusted to go on."""

    def __init__(self, run: str, seq: int, what: str) -> None:
        self.run = run
        self.seq = seq
        super().__init__(f"journal of run {run}, entry {seq}: {what}; it was not written by this version's rules, or it was changed")


class Run(Generic[M]):
    """The live state of one run.

    Attributes:
        id: the run's id.
        state: name of the machine's state.
        memory: the machine's memory; written by moves only.
        seq: of the last entry.
        outstanding: effects without an accepted outcome, by id, oldest first.
        withdrawn: ids among them that another effect has called off.
    """

    def __init__(self, machine: Machine[M], run: str) -> None:
        self.machine = machine
        self.id = run
        self.state: enum.StrEnum = machine.initial
        self.memory = machine.memory()
        self.seq = 0
        self.outstanding: dict[str, Effect] = {}
        self.withdrawn: set[str] = set()
        self._last: collections.deque[Entry] = collections.deque(maxlen=STORY_LENGTH)

    @property
    def story(self) -> list[str]:
        """The last entries, one line each."""
        return [story_line(entry) for entry in self._last]

    @property
    def ended(self) -> bool:
        """True when the machine is terminal and nothing is outstanding."""
        return not self.outstanding and self.machine.is_terminal(self.state)

    def take(self, event: Event, *, at: float, actor: str, key: str = "") -> Entry | None:
        """Step with one event and make its entry; None where nothing happened.

        An outcome of an effect that is not outstanding is noted, not stepped.

        Raises:
            IllegalTransition: the table has no row for it; nothing has changed.
        """
        if isinstance(event, Outcome) and event.effect not in self.outstanding:
            return self.note(event, at=at, actor=actor, key=key, why=f"{event.effect} is not outstanding")
        return self._step(event, Turn(run=self.id, seq=self.seq + 1, at=at, actor=actor), key)

    def note(self, event: Event, *, at: float, actor: str, key: str, why: str) -> Entry:
        """Make an entry for an event that is recorded and not stepped."""
        entry = Entry(run=self.id, seq=self.seq + 1, at=at, actor=actor, event=event, state=self.state, key=key, note=why)
        self._advance(entry)
        return entry

    def replay(self, entries: Iterable[Entry]) -> None:
        """Take the run forward over entries of its journal.

        Raises:
            JournalMismatch: a gap, or an entry that today's table does not give.
        """
        for entry in entries:
            if entry.seq != self.seq + 1 or entry.run != self.id:
                raise JournalMismatch(
                    self.id, entry.seq, f"expected entry {self.seq + 1} of run {self.id}, found {entry.seq} of {entry.run}"
                )
            if entry.note:
                if entry.state != self.state:
                    raise JournalMismatch(
                        self.id, entry.seq, f"a note leaves the state as it is, {self.state}; the journal says {entry.state}"
                    )
                self._advance(entry)
                continue
            if isinstance(entry.event, Outcome) and entry.event.effect not in self.outstanding:
                raise JournalMismatch(self.id, entry.seq, f"it takes an outcome of {entry.event.effect}, which is not outstanding")
            turn = Turn(run=entry.run, seq=entry.seq, at=entry.at, actor=entry.actor, facts=dict(entry.facts), replayed=True)
            try:
                replayed = self._step(entry.event, turn, entry.key)
            except (AsterismError, LookupError, RuntimeError) as error:
                raise JournalMismatch(self.id, entry.seq, f"it cannot be replayed ({error})") from error
            if replayed is None or replayed.state != entry.state:
                told = replayed.state if replayed else "nothing"
                raise JournalMismatch(self.id, entry.seq, f"it leads to {told} today, the journal says {entry.state}")
            if replayed.effects != entry.effects:
                raise JournalMismatch(self.id, entry.seq, "it asks for other effects today than the journal says")

    def _step(self, event: Event, turn: Turn, key: str) -> Entry | None:
        try:
            target = self.machine.step(self.state, self.memory, event, turn)
        except IllegalTransition as error:
            raise IllegalTransition(error.machine, error.state, error.event, error.accepted, tuple(self.story)) from None
        if target is None:
            return None
        for effect in turn.effects:
            if type(effect) not in self.machine.effects:
                raise TypeError(
                    f"{self.machine.name} asks for {type(effect).__name__}, which it does not declare: it could not be replayed"
                )
        entry = Entry(
            run=self.id,
            seq=turn.seq,
            at=turn.at,
            actor=turn.actor,
            event=event,
            state=target,
            effects=tuple(turn.effects),
            key=key,
            facts=turn.facts,
        )
        self._advance(entry)
        return entry

    def _advance(self, entry: Entry) -> None:
        self.seq = entry.seq
        self.state = self.machine.states(entry.state)
        self._last.append(entry)
        if entry.note:
            return
        if isinstance(entry.event, Outcome):
            self.outstanding.pop(entry.event.effect, None)
            self.withdrawn.discard(entry.event.effect)
        for effect, effect_id in zip(entry.effects, entry.effect_ids(), strict=True):
            self.outstanding[effect_id] = effect
            if effect.withdraws in self.outstanding:
                self.withdrawn.add(effect.withdraws)


def check_whole(run: str, listed: int, last: int) -> None:
    """See that a journal goes as far as its run's row says.

    Raises:
        JournalMismatch: entries are missing at its end.
    """
    if listed > last:
        raise JournalMismatch(run, last + 1, f"it is missing: the run is listed with {listed} entries")


UPGRADES: dict[int, Callable[[Record], Record]] = {}
"""By version, the step that makes a record of that version one of the next. None yet: there has been one form only."""


def upgraded(record: Record) -> Record:
    """A record in today's form; what is stored stays as it was written.

    Raises:
        JournalMismatch: no step leads from its version to today's.
    """
    while record.version != SCHEMA_VERSION:  # bounded: each step leads one version on
        step = UPGRADES.get(record.version)
        if step is None:
            raise JournalMismatch(record.run, record.seq, f"schema version {record.version}, this program reads {SCHEMA_VERSION}")
        record = msgspec.structs.replace(step(record), version=record.version + 1)
    return record


class _Body(msgspec.Struct):
    """The packed form of an entry's typed half."""

    event: Any
    effects: Any = ()
    facts: dict[str, Any] = msgspec.field(default_factory=dict)


class Packer:
    """Packs entries of one machine into records, and back."""

    def __init__(self, machine: Machine[Any]) -> None:
        self._machine = machine
        self._events = {event.__name__: event for event in machine.events}
        self._commands = {event.__name__: event for event in machine.events if event.from_outside}
        self._effects = {effect.__name__: effect for effect in machine.effects}
        self._encoder = msgspec.json.Encoder()

    def pack(self, entry: Entry) -> Record:
        """The record of an entry.

        Raises:
            InvalidInput: a text in it is not Unicode.
        """
        body: dict[str, Any] = {"event": entry.event}
        if entry.effects:
            body["effects"] = entry.effects
        if entry.facts:
            body["facts"] = entry.facts
        return Record(
            run=entry.run,
            seq=entry.seq,
            at=entry.at,
            actor=entry.actor,
            kind=type(entry.event).__name__,
            state=str(entry.state),
            body=_json(body, self._encoder),
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
            body = msgspec.json.decode(record.body, type=_Body)
            event = msgspec.convert(body.event, self._events[record.kind])
            effects = tuple(msgspec.convert(effect, self._effects[effect["type"]]) for effect in body.effects)
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise JournalMismatch(record.run, record.seq, f"cannot be read ({type(error).__name__}: {error})") from error
        return Entry(
            run=record.run,
            seq=record.seq,
            at=at,
            actor=record.actor,
            event=event,
            state=record.state,
            effects=effects,
            key=record.key,
            note=record.note,
            facts=body.facts,
        )

    def event(self, kind: str, body: str) -> Event:
        """An event from its type name and JSON text, as inbox rows carry it.

        Raises:
            ValueError: not an event of this machine, or none that comes from outside.
        """
        try:
            return msgspec.json.decode(body, type=self._commands[kind])
        except (KeyError, UnicodeError, RecursionError, msgspec.MsgspecError) as error:
            raise ValueError(f"{self._machine.name} cannot read {kind} {body[:80]!r}: {error}") from None


@functools.cache
def packer(machine: Machine[Any]) -> Packer:
    """The packer of a machine."""
    return Packer(machine)


def state_history(records: Iterable[Record], **more: str) -> list[dict[str, Any]]:
    """The history of states: ``{step, state, timestamp, **more}``, one for each change of state, oldest first."""
    history: list[dict[str, Any]] = []
    for record in records:
        if not history or history[-1]["state"] != record.state:
            history.append({"step": len(history) + 1, "state": record.state, "timestamp": record.at, **more})
    return history


def time_per_state(records: Iterable[Record], now: float) -> dict[str, float]:
    """Seconds spent in each state, up to ``now`` (or to the last entry, if ``now`` is earlier)."""
    spent: dict[str, float] = {}
    state, since = "", 0.0
    for record in records:
        if state:
            spent[state] = spent.get(state, 0.0) + max(0.0, record.at - since)
        state, since = record.state, record.at
    if state:
        spent[state] = spent.get(state, 0.0) + max(0.0, now - since)
    return spent


def event_body(event: Event) -> str:
    """The JSON text of an event, as inbox rows carry it.

    Raises:
        InvalidInput: a text in it is not Unicode.
    """
    return _json(event, msgspec.json.Encoder())


def _json(value: Any, encoder: msgspec.json.Encoder) -> str:
    try:
        return encoder.encode(value).decode()
    except UnicodeEncodeError:  # what a terminal gives for bytes that are not UTF-8
        raise InvalidInput("a text to be stored is not valid Unicode; give it in UTF-8") from None
