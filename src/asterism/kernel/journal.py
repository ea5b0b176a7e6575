"""What a journal is: entries in order, and the records that stores keep of them.

An entry is typed (its event and effects are objects of one machine); a record is the same thing
packed, which a store can keep and a person can read without knowing the machine.
"""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.kernel.machine import Effect, Event

SCHEMA_VERSION = 1
"""Version of the packed form. A change of format raises it and adds an upgrade step."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step of one run.

    Attributes:
        run: the run's id.
        seq: position in the run's journal, from 1, without gaps.
        at: seconds since the epoch, as the driver read them.
        actor: who caused it (``system``, ``device:laptop``, ``planner``, a person's name, …).
        event: what happened.
        state: name of the state after it.
        effects: what it caused, in order; their ids are :func:`effect_id` of (run, seq, index).
        key: key of the inbox row it folds, empty when it folds none.
        note: why the event was only noted and not stepped; empty when it was stepped.
        facts: verdicts that a replay must not compute anew (see ``Turn.recorded``).
    """

    run: str
    seq: int
    at: float
    actor: str
    event: Event
    state: str
    effects: tuple[Effect, ...] = ()
    key: str = ""
    note: str = ""
    facts: dict[str, Any] = msgspec.field(default_factory=dict)

    def effect_ids(self) -> tuple[str, ...]:
        """Ids of the effects, in order."""
        if not self.effects:
            return ()
        return tuple([effect_id(self.run, self.seq, index) for index in range(len(self.effects))])


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as stores keep it.

    Attributes:
        kind: type name of the event.
        body: JSON ``{"event": …, "effects": […], "facts": {…}}``, as text; without what is empty.
        version: schema version of the body.
    """

    run: str
    seq: int
    at: float
    actor: str
    kind: str
    state: str
    body: str
    key: str = ""
    note: str = ""
    version: int = SCHEMA_VERSION


def effect_id(run: str, seq: int, index: int) -> str:
    """The id of an effect: also the idempotency key handed to devices and models."""
    return f"{run}:{seq}.{index}"


def story_line(record_or_entry: Record | Entry) -> str:
    """One line a person can read: seq, what happened, the state after it."""
    it = record_or_entry
    what = it.kind if isinstance(it, Record) else type(it.event).__name__
    note = f"  (noted: {it.note})" if it.note else ""
    return f"#{it.seq} {what} by {it.actor} -> {it.state}{note}"
