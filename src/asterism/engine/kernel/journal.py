"""A journal: the entries of a run in order, and the records that stores hold of them.

An entry is typed: its event and effects are objects of one machine. A record is the same entry as
JSON text, which stores and people can read without the machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from asterism.engine.kernel.machine import Effect, Event, Machine, kind_of, make_effect_id
from asterism.engine.kernel.permissions import LOWEST, Permissions
from asterism.engine.kernel.refusal import verdict_words
from asterism.errors import VERSION_STEP, AsterismError, RunNewer

SCHEMA_VERSION = 8
"""Schema version of a record's body. A change of format raises it and adds a converter."""


class JournalMismatch(AsterismError):
    """Raised when a replay does not give what the journal says; the run cannot continue."""

    def __init__(self, run_id: str, seq: int, what: str) -> None:
        self.run_id = run_id
        self.seq = seq
        super().__init__(
            f"journal of run {run_id}, entry {seq}: {what}; another version of the program wrote it (use that one), or it was changed"
        )


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step of a run.

    Attributes:
        seq: position in the run's journal, from 1, without gaps.
        at: seconds since the epoch, from the driver's clock.
        actor: cause of the event (``system``, ``device:laptop``, ``planner``, a person's name, …).
        state: name of the state after it.
        effects: effects it scheduled, in order; their ids are `make_effect_id` of (run, seq,
            index).
        key: key of the inbox row with the event; empty if the event came otherwise.
        note: reason why the event was noted without a step; empty after a step.
        side_effects: recorded results that a replay must not compute again (see
            ``StepContext.side_effect``).
        rules: version of the machine's rules for this and the following entries; only in the first
            entry and those that acquire ownership, else 0.
        permissions: those of the sender of the event; the lowest if no person sent it.
    """

    run_id: str
    seq: int
    at: float
    actor: str
    event: Event
    state: str
    effects: tuple[Effect, ...] = ()
    key: str = ""
    note: str = ""
    side_effects: dict[str, Any] = msgspec.field(default_factory=dict)
    rules: int = 0
    permissions: Permissions = LOWEST

    def effect_ids(self) -> tuple[str, ...]:
        """Return the ids of the effects, in order."""
        if not self.effects:
            return ()
        return tuple([make_effect_id(self.run_id, self.seq, index) for index in range(len(self.effects))])


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as stores hold it.

    Attributes:
        body: JSON ``{"event": …, "effects": […], "facts": {…}, "rules": …, "permissions":
            […]}`` as text, without its
            empty members.
        version: schema version of the body.
    """

    run_id: str = msgspec.field(name="run")
    seq: int
    at: float
    actor: str
    kind: str
    state: str
    body: str
    key: str = ""
    note: str = ""
    version: int = SCHEMA_VERSION


def history_line(record_or_entry: Record | Entry) -> str:
    """Return a line for people: seq, event, actor, state after the event."""
    it = record_or_entry
    what = it.kind if isinstance(it, Record) else kind_of(it.event)
    note = f"  (noted: {verdict_words(it.note)})" if it.note else ""
    return f"#{it.seq} {what} by {it.actor} -> {it.state}{note}"


def version_of(machine: Machine[Any], rules: int = 0) -> int:
    """Return the run version of this program: its schema and rules version in one number.

    A program refuses runs with a greater one. ``rules`` replaces the rules version of the machine.
    """
    return SCHEMA_VERSION * VERSION_STEP + (rules or machine.rules)


def check_known(run_id: str, version: int, machine: Machine[Any]) -> None:
    """Check that this program knows the version of a run.

    Raises:
        RunNewer: a newer program wrote the run.
    """
    if version > version_of(machine):
        raise RunNewer(run_id, version, version_of(machine))


def check_whole(run_id: str, listed: int, last: int) -> None:
    """Check that a journal is as long as its run's row says.

    Raises:
        JournalMismatch: entries are missing at its end.
    """
    if listed > last:
        raise JournalMismatch(run_id, last + 1, f"it is missing, although the database says that the run has {listed} entries")


def state_history(records: Iterable[Record], **more: str) -> list[dict[str, Any]]:
    """Return ``{step, state, timestamp, **more}`` for each change of state, oldest first."""
    history: list[dict[str, Any]] = []
    for record in records:
        if not history or history[-1]["state"] != record.state:
            history.append({"step": len(history) + 1, "state": record.state, "timestamp": record.at, **more})
    return history


def time_per_state(records: Iterable[Record], now: float) -> dict[str, float]:
    """Return the seconds spent in each state up to ``now``, or the last entry if it is later."""
    spent: dict[str, float] = {}
    state, since = "", 0.0
    for record in records:
        if state:
            spent[state] = spent.get(state, 0.0) + max(0.0, record.at - since)
        state, since = record.state, record.at
    if state:
        spent[state] = spent.get(state, 0.0) + max(0.0, now - since)
    return spent
