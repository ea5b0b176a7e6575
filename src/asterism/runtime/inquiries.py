"""The questions that an entry asks and closes, as a store keeps them."""

from __future__ import annotations

import msgspec

from asterism.kernel.journal import Entry
from asterism.kernel.machine import kind_of
from asterism.machines.run_control import Answered, AskPerson, TransitionFailed
from asterism.runtime.ports.store import InquiryRow

_CLOSING = (Answered, TransitionFailed)


def opened_inquiries(entry: Entry) -> list[InquiryRow]:
    """Return the questions that an entry asks."""
    if not entry.effects:
        return []
    return [
        InquiryRow(
            inquiry_id=effect_id,
            run_id=entry.run_id,
            prompt=effect.prompt,
            verbs=effect.verbs,
            subject=msgspec.json.encode(effect.subject).decode(),
            schema=msgspec.json.encode(effect.schema).decode() if effect.schema else "",
            risk=effect.risk,
            asked_at=entry.at,
            expires_at=effect.expires_at,
        )
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True)
        if isinstance(effect, AskPerson)
    ]


def closed_inquiries(entry: Entry) -> list[tuple[str, str]]:
    """Return the ids of the questions that an entry closes, each with who answered how, or ``withdrawn``."""
    event = entry.event
    if not isinstance(event, _CLOSING):
        return []
    if isinstance(event, TransitionFailed) and event.event == kind_of(Answered) and not entry.note:
        return [(event.effect_id, "withdrawn")]  # its run has ended over the answer
    if entry.note or not isinstance(event, Answered):
        return []
    return [(event.effect_id, "withdrawn" if event.cancelled else f"{event.verb} by {entry.actor}")]
