"""The inquiries that an entry opens and closes, as rows of a store."""

from __future__ import annotations

import msgspec

from asterism.kernel.journal import Entry
from asterism.kernel.machine import kind_of
from asterism.machines.run_control import Answered, AskPerson, TransitionFailed
from asterism.runtime.ports.store import InquiryRow


def opened_inquiries(entry: Entry) -> list[InquiryRow]:
    """Return the inquiries that an entry opens."""
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
    """Return the inquiries that an entry closes, as (id, answer and actor, or ``withdrawn``)."""
    if entry.note:
        return []
    match entry.event:
        case Answered() as answer:
            return [(answer.effect_id, "withdrawn" if answer.cancelled else f"{answer.verb} by {entry.actor}")]
        case TransitionFailed() as failed if failed.event == kind_of(Answered):  # the answer ended its run
            return [(failed.effect_id, "withdrawn")]
        case _:
            return []
