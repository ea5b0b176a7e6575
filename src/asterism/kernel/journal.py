"""What a journal is: entries in order, and the records that stores keep of them.

An entry is typed (its event and effects are objects of one machine); a record is the same thing
packed, which a store can keep and a person can read without knowing the machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from asterism.errors import VERSION_STEP, AsterismError, RunNewer
from asterism.kernel.machine import Effect, Event, Machine, kind_of, make_effect_id

SCHEMA_VERSION = 2
"""Version of the packed form. A change of format raises it and adds an upgrade step."""


class JournalMismatch(AsterismError):
    """Replaying a journal did not give what the journal says; the run cannot be trusted to go on."""

    def __init__(self, run_id: str, seq: int, what: str) -> None:
        self.run_id = run_id
        self.seq = seq
        super().__init__(f"journal of run {run_id}, entry {seq}: {what}; it was not written by this version's rules, or it was changed")


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step of one run.

    Attributes:
        run_id: the run's id.
        seq: position in the run's journal, from 1, without gaps.
        at: seconds since the epoch, as the driver read them.
        actor: who caused it (``system``, ``device:laptop``, ``planner``, a person's name, …).
        event: what happened.
        state: name of the state after it.
        effects: what it caused, in order; their ids are ``effect_id`` of (run, seq, index).
        key: key of the inbox row it folds, empty when it folds none.
        note: why the event was only noted and not stepped; empty when it was stepped.
        facts: verdicts that a replay must not compute anew (see ``StepContext.side_effect``).
        rules: version of the machine's rules that this entry and those after it are made by; only in the first entry of a run
            and where an owner claims it, else 0.
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

    def effect_ids(self) -> tuple[str, ...]:
        """Ids of the effects, in order."""
        if not self.effects:
            return ()
        return tuple([make_effect_id(self.run_id, self.seq, index) for index in range(len(self.effects))])


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as stores keep it.

    Attributes:
        kind: kind of the event.
        body: JSON ``{"event": …, "effects": […], "facts": {…}, "rules": …}``, as text; without what is empty.
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
    """One line a person can read: seq, what happened, the state after it."""
    it = record_or_entry
    what = it.kind if isinstance(it, Record) else kind_of(it.event)
    note = f"  (noted: {it.note})" if it.note else ""
    return f"#{it.seq} {what} by {it.actor} -> {it.state}{note}"


def version_of(machine: Machine[Any], rules: int = 0) -> int:
    """Return the version of the runs that this program writes with a machine: one number, which orders programs by what they know.

    Args:
        machine: of the runs.
        rules: another version of its rules than its own.
    """
    return SCHEMA_VERSION * VERSION_STEP + (rules or machine.rules)


def check_known(run_id: str, version: int, machine: Machine[Any]) -> None:
    """See that this program knows the version that a run was written with.

    Raises:
        RunNewer: it does not.
    """
    if version > version_of(machine):
        raise RunNewer(run_id, version, version_of(machine))


def check_whole(run_id: str, listed: int, last: int) -> None:
    """See that a journal goes as far as its run's row says.

    Raises:
        JournalMismatch: entries are missing at its end.
    """
    if listed > last:
        raise JournalMismatch(run_id, last + 1, f"it is missing: the run is listed with {listed} entries")


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
