"""Questions to people, under every machine: asked, answered, expired, closed, and asked again after a fork.

``RunMemory.inquiries`` has the open ones. This is the only place that schedules an ``AskPerson`` and checks an ``Answered``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from asterism.engine.control.run_control import (
    Answered,
    AskPerson,
    CancelEffect,
    Risk,
    RunMemory,
    Verb,
    check_sender,
    needs_digest,
)
from asterism.engine.kernel.data import MAX_BYTES
from asterism.engine.kernel.guards import digest_of
from asterism.engine.kernel.machine import StepContext, make_effect_id
from asterism.engine.kernel.permissions import Permission
from asterism.engine.kernel.phrase import Text, phrase
from asterism.errors import Refused

INTERRUPTION = "interruption"
"""Kind of a question about work that may have happened: run it again (approve), give its result (respond), or neither."""

_VERBS: Mapping[str, tuple[Verb, ...]] = {
    INTERRUPTION: ("approve", "respond", "reject"),
    "question": ("respond", "reject"),
    "later": ("respond", "reject"),
}
_APPROVAL: tuple[Verb, ...] = ("approve", "edit", "reject")
"""Answers of every other kind of question, unless it is asked with others."""


def open_inquiry(
    memory: RunMemory,
    kind: str,
    question: Text,
    subject: dict[str, Any],
    context: StepContext,
    *,
    about: str = "",
    verbs: tuple[Verb, ...] | None = None,
    schema: dict[str, Any] | None = None,
    risk: Risk = "high",
) -> str:
    """Ask a person; return the id of the question. ``subject`` is exactly what an approval holds for."""
    verbs = _VERBS.get(kind, _APPROVAL) if verbs is None else verbs
    asked = AskPerson(question=question, kind=kind, about=about, subject=subject, verbs=verbs, schema=schema or {}, risk=risk)
    return _ask(memory, asked, context)


def ask_again(memory: RunMemory, inquiry_id: str, context: StepContext) -> str:
    """Ask a question that is open in the original of this fork, under an id of this run; return the id."""
    inquiry = memory.inquiries[inquiry_id]
    close_inquiry(memory, inquiry_id, context)
    return _ask(memory, inquiry, context)


def _ask(memory: RunMemory, inquiry: AskPerson, context: StepContext) -> str:
    limit_s = memory.inquiry_limit_s(inquiry.kind)
    inquiry = msgspec.structs.replace(inquiry, expires_at=0.0 if limit_s is None else context.at + limit_s)
    inquiry_id = context.schedule(inquiry)
    memory.inquiries[inquiry_id] = inquiry
    if inquiry.expires_at:
        memory.wake_up_at(inquiry.expires_at)
    return inquiry_id


def check_answer(memory: RunMemory, event: Answered, context: StepContext) -> AskPerson:
    """Return the question that an answer is for, which stays open.

    Raises:
        Refused: the question is not open, does not accept this answer, or shows another request than
            the answer names; or its sender may not give it.
    """
    inquiry = memory.inquiries.get(event.effect_id)
    if inquiry is None:
        raise Refused(phrase("answer.not_open", inquiry=event.effect_id))
    if event.verb not in (*inquiry.verbs, "cancel") and context.rules >= memory.verbs_checked:
        raise Refused(phrase("answer.verb", inquiry=event.effect_id, verbs=inquiry.verbs, verb=event.verb))
    guards = memory.guards
    if guards.submitter and not event.cancelled:  # else the run has begun under earlier rules, or nobody has sent it
        who = (guards.submitter, *guards.submitters)
        kind = "conversation" if memory.answered_by_submitter else inquiry.kind
        check_sender(event, kind, context, submitters=who, submitter_may_approve=guards.submitter_may_approve)
    check_digest(memory, event.effect_id, event.verb, event.digest, context)
    if event.verb == "edit" and not isinstance(event.value, dict):
        raise Refused(phrase("answer.edit_type"))
    return inquiry


def check_digest(memory: RunMemory, inquiry_id: str, verb: Verb, digest: str, context: StepContext) -> None:
    """Check that an answer to an open question names what it shows, if it must.

    Raises:
        Refused: it names nothing, or another request, or one that is too large to be shown; the question stays open.
    """
    asked = memory.inquiries[inquiry_id]
    is_bound = needs_digest(verb, asked.verbs) and (verb != "respond" or Permission.LOCAL not in context.permissions)
    if memory.guards.submitter and is_bound and digest != digest_of(asked.subject):
        raise Refused(phrase("answer.other_request", inquiry=inquiry_id))
    if is_bound and memory.guards.submitter and len(msgspec.json.encode(asked.subject)) > MAX_BYTES:
        raise Refused(phrase("answer.too_long_to_show", inquiry=inquiry_id, most=MAX_BYTES))


def is_expired(memory: RunMemory, inquiry_id: str, context: StepContext) -> bool:
    """Return True if a question is open and its time is over."""
    inquiry = memory.inquiries.get(inquiry_id)
    return inquiry is not None and 0 < inquiry.expires_at <= context.at


def close_inquiry(memory: RunMemory, inquiry_id: str, context: StepContext) -> None:
    """Close a question without an answer, if it is open."""
    if memory.inquiries.pop(inquiry_id, None) is not None:
        context.schedule(CancelEffect(effect_id=inquiry_id))
        context.abandon(inquiry_id)


def note_questions(memory: RunMemory, context: StepContext, end: StrEnum | None) -> None:
    """Note the questions that a move has asked or cancelled by itself; with the run, they close."""
    for number, effect in enumerate(context.effects):
        if isinstance(effect, AskPerson):
            memory.inquiries.setdefault(make_effect_id(context.run_id, context.seq, number), effect)
    for effect_id in context.abandoned:
        memory.inquiries.pop(effect_id, None)
    for inquiry_id in tuple(memory.inquiries) if end else ():
        close_inquiry(memory, inquiry_id, context)
