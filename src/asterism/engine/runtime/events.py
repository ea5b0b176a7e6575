"""Events: sending them, and comparing them with the waits of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from asterism.engine.control.waits import EventTaken
from asterism.engine.kernel.data import as_json, check_event_name
from asterism.engine.kernel.machine import kind_of
from asterism.engine.kernel.packing import event_body
from asterism.engine.ports.events import KEEP_S, MAX_KEEP_S, Deliver, EventRow, OpenWait
from asterism.engine.ports.store import Store
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.form import Form
from asterism.errors import InvalidInput

MAX_ID = 200


async def send_event(
    store: Store,
    clock: Clock,
    forms: Mapping[str, Form],
    name: str,
    data: Any = None,
    *,
    event_id: str = "",
    keep_s: float = KEEP_S,
    deliver: Deliver = "all",
    actor: str,
    tenant: str = "",
    is_signed: bool = False,
) -> EventRow:
    """Send an event to the runs that wait for it, or will within ``keep_s``; return it as it is stored.

    Args:
        store: the store of the runs.
        clock: the current time.
        forms: forms of the runs, by the name of their machine.
        name: what has happened.
        data: any JSON.
        event_id: its id: an event that is sent again under it is the same one; a new one by default.
        keep_s: seconds for which a wait may still get it.
        deliver: ``one`` for the oldest wait that it matches, instead of each.
        actor: who sends it.
        tenant: only runs of this tenant get it.
        is_signed: True for a request of a hook; the same id is the same event then, also with other data.

    Raises:
        InvalidInput: an argument is invalid, or another event has this id.
        Refused: there are too many events.
    """
    check_event_name(name, "name")
    if not event_id.isprintable() or len(event_id) > MAX_ID:
        raise InvalidInput(f"id: an event's id has {MAX_ID} printable characters at most")
    if not 0 < keep_s <= MAX_KEEP_S:
        raise InvalidInput(f"keep_s: it is more than 0 and at most {MAX_KEEP_S:.0f} s, not {keep_s:g}")
    now = clock.now()
    row = EventRow(
        tenant=tenant,
        event_id=event_id or clock.new_id(),
        name=name,
        data=msgspec.json.encode(as_json(data, "data")).decode(),
        deliver=deliver,
        at=now,
        expires_at=now + keep_s,
        actor=actor,
    )
    stored = await store.add_event(row)
    if not is_signed and (stored.name, stored.data) != (row.name, row.data):
        raise InvalidInput(f"id: there is another event {row.event_id!r} already")
    await match_events(store, clock, forms)
    return await store.add_event(row)  # as it is now, with the waits that have got it


async def match_events(store: Store, clock: Clock, forms: Mapping[str, Form]) -> None:
    """Give events to the waits that they match."""
    matchers = {name: form.matches for name, form in forms.items() if form.matches is not None}
    while matchers and await store.match_events(matchers, _taken, now=clock.now()):  # bounded: each round compares pairs once
        pass


def _taken(wait: OpenWait, event: EventRow) -> tuple[str, str]:
    taken = EventTaken(effect_id=wait.inquiry_id, event_id=event.event_id, data=msgspec.json.decode(event.data))
    return kind_of(taken), event_body(taken)
