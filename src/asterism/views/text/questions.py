"""An open question to a person: its subject in short, and the command that answers it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from asterism.engine.ports.store import InboxRow, InquiryRow
from asterism.errors import InvalidInput
from asterism.views.words import folded, plain

MAX_SUBJECT = 2000
"""Characters of each field of a subject in a list at most."""


def subject_of(row: InquiryRow) -> dict[str, Any]:
    """Return the subject of a question.

    Raises:
        InvalidInput: the subject in the database is invalid.
    """
    try:
        return msgspec.json.decode(row.subject or "{}", type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise invalid_subject(row, error) from None


def invalid_subject(row: InquiryRow, error: Exception) -> InvalidInput:
    """Return the error of a subject that was changed in the database."""
    return InvalidInput(f"question {row.inquiry_id}: its subject in the database is invalid: {error}")


def answered_line(answer: InboxRow, resume_with: str) -> str:
    """Return a line about an answer that has not been delivered to its run.

    Args:
        answer: the answer.
        resume_with: the command, or the program, that resumes the run.
    """
    return f"answered by {plain(answer.actor)}; takes effect with: {plain(resume_with)}"


def answer_line(row: InquiryRow, root: str) -> str:
    """Return the command that answers a question.

    Args:
        row: the question.
        root: id of the root run.
    """
    if not row.verbs:
        return f"asterism resume {plain(root)}   at a terminal, to type the secret: it is not stored"
    value = "" if "respond" not in row.verbs else " --value '…'" if row.verbs == ("respond",) else " [respond: --value '…']"
    return f"asterism answer {plain(row.inquiry_id)} {'|'.join(row.verbs)}{value}"


def folded_subject(subject: Mapping[str, Any]) -> list[str]:
    """Return the subject of a question in one line, for a list."""
    texts = {name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for name, value in subject.items()}
    line = " ".join(f"{plain(name)}={folded(text, MAX_SUBJECT)}" for name, text in texts.items())
    is_cut = any(len(text) > MAX_SUBJECT for text in texts.values())
    return [f"subject: {line}", *(["         cut here; in full in: asterism inbox"] if is_cut else [])]
