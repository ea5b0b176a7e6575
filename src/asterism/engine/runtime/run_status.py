"""The status of a run (active, waiting, paused, ended), and its inquiries, as rows."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.engine.control.run_control import Answered, AskPerson, Cancel, GuardLifted, Pause, TransitionFailed, Unpause
from asterism.engine.control.waits import EventTaken, WaitEnded, WaitFor
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect, kind_of
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import InquiryRow, RunStatus

_CONTROLS = frozenset({Pause, Unpause, Cancel, GuardLifted, Answered, EventTaken})
"""Commands that every machine accepts. A run that only these could reach is stuck: without anything
outstanding they can at most end it."""


def status_of(run: Run[Any]) -> RunStatus:
    """Return the status of a run; of the machine's state it uses only whether that is terminal."""
    if run.ended:
        return "ended"
    if run.memory.paused:
        return "paused"
    return "waiting" if run.memory.only_waits(run.outstanding) else "active"


def is_stuck(run: Run[Any]) -> bool:
    """Return True if nothing can advance a run: no effect, wake-up time, answer or command."""
    memory = run.memory
    if run.outstanding or run.ended or memory.paused or memory.has_pending_work() or memory.due_at() is not None:
        return False
    return not any(kind.from_outside and kind not in _CONTROLS for kind in run.machine.table[run.state])


# -- inquiries that an entry opens and closes, as rows of a store ----------------------------------


def opened_inquiries(entry: Entry) -> list[InquiryRow]:
    """Return the inquiries that an entry opens."""
    if all(effect.performed_outside for effect in entry.effects):
        return []
    found = zip(entry.effect_ids(), entry.effects, strict=True)
    return [row for effect_id, effect in found if (row := _row_of(effect_id, effect, entry)) is not None]


def _row_of(effect_id: str, effect: Effect, entry: Entry) -> InquiryRow | None:
    if isinstance(effect, WaitFor) and effect.event:
        subject = msgspec.json.encode({"match": effect.match, "values": effect.values}).decode()
        return InquiryRow(
            inquiry_id=effect_id, run_id=entry.run_id, question="", verbs=(), subject=subject, asked_at=entry.at, event=effect.event
        )
    if isinstance(effect, AskPerson):
        return InquiryRow(
            inquiry_id=effect_id,
            run_id=entry.run_id,
            question=effect.question,
            verbs=effect.verbs,
            subject=msgspec.json.encode(effect.subject).decode(),
            schema=msgspec.json.encode(effect.schema).decode() if effect.schema else "",
            risk=effect.risk,
            asked_at=entry.at,
            expires_at=effect.expires_at,
        )
    return None


CANCELLED = "withdrawn"
"""The answer in the row of an inquiry that was cancelled or has expired."""


def closed_inquiries(entry: Entry) -> list[tuple[str, str]]:
    """Return the inquiries that an entry closes, as (id, answer and actor, or ``CANCELLED``)."""
    if entry.note:
        return []
    match entry.event:
        case Answered() as answer:
            return [(answer.effect_id, CANCELLED if answer.cancelled else f"{answer.verb} by {entry.actor}")]
        case EventTaken(effect_id=effect_id, event_id=event_id):
            return [(effect_id, f"event {event_id}")]
        case WaitEnded(effect_id=effect_id):
            return [(effect_id, CANCELLED)]
        case TransitionFailed() as failed if failed.event == kind_of(Answered):  # the answer ended its run
            return [(failed.effect_id, CANCELLED)]
        case _:
            return []
