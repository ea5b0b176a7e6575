"""Render what a person is asked to approve: a plan as a graph, edits with the values before and after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from asterism.constellation.model.changes import Change
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.view.plan_history import change_words
from asterism.constellation.view.task_lines import plan_lines
from asterism.errors import InvalidInput
from asterism.views.text.rows import OpenQuestion, PendingAnswer
from asterism.views.words import folded, plain, printable, whole

MAX_LINES = 200
"""Lines of one proposal in a list at most; ``subject_lines`` has all."""
MAX_SUBJECT = 2000
"""Characters of each field of any other subject in a list at most."""


ALWAYS = {"always": True}
"""Value of an answer that approves a tool for the rest of a run."""


class _Proposal(msgspec.Struct):
    """The fields of a proposal that are read here."""

    thought: str = ""
    plan: dict[str, Any] = {}
    changes: list[Change] = []


def subject_of(row: OpenQuestion) -> dict[str, Any]:
    """Return the subject of a question.

    Raises:
        InvalidInput: the subject in the database is invalid.
    """
    try:
        subject = msgspec.json.decode(row.subject or "{}", type=dict[str, Any])
        if "kind" in subject:
            msgspec.convert(subject, _Proposal)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"question {row.inquiry_id}: its subject in the database is invalid: {error}") from None
    return subject


def answered_line(answer: PendingAnswer, resume_with: str) -> str:
    """Return a line about an answer that has not been delivered to its run.

    Args:
        answer: the answer.
        resume_with: the command, or the program, that resumes the run.
    """
    return f"answered by {plain(answer.actor)}; takes effect with: {plain(resume_with)}"


def answer_line(row: OpenQuestion, root: str) -> str:
    """Return the command that answers a question.

    Args:
        row: the question.
        root: id of the root run.
    """
    if not row.verbs:
        return f"asterism resume {plain(root)}   at a terminal, to type the secret: it is not stored"
    value = "" if "respond" not in row.verbs else " --value '…'" if row.verbs == ("respond",) else " [respond: --value '…']"
    return f"asterism answer {plain(row.inquiry_id)} {'|'.join(row.verbs)}{value}"


def proposal_lines(subject: Mapping[str, Any]) -> list[str]:
    """Return the subject of a question in short, for a list: a proposal as a graph or as changes, any other one in one line."""
    if "kind" not in subject:
        return _folded(subject)
    lines = [f"thought: {plain(subject['thought'], 1000)}"] if subject.get("thought") else []
    if "plan" in subject:
        lines += [str(line) for line in plan_lines(TaskConstellation.from_dict(subject["plan"]))]
    lines += [
        f"{name}: {folded(json.dumps(subject[name], ensure_ascii=False), MAX_SUBJECT)}" for name in ("params", "inputs") if name in subject
    ]
    lines += [change_words(change) for change in msgspec.convert(subject.get("changes", []), list[Change])]
    return lines if len(lines) <= MAX_LINES else [*lines[:MAX_LINES], f"… and {len(lines) - MAX_LINES} more lines"]


def _folded(subject: Mapping[str, Any]) -> list[str]:
    texts = {name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for name, value in subject.items()}
    line = " ".join(f"{plain(name)}={folded(text, MAX_SUBJECT)}" for name, text in texts.items())
    is_cut = any(len(text) > MAX_SUBJECT for text in texts.values())
    return [f"subject: {line}", *(["         cut here; in full in: asterism inbox"] if is_cut else [])]


def subject_lines(row: OpenQuestion) -> list[str]:
    """Return the subject of a question in full: a person approves exactly this. Two subjects never give the same lines."""
    subject = subject_of(row)
    if "kind" in subject:
        return [*proposal_lines(subject), "in full:", *whole(subject)]
    fields = ((printable(name), whole(value)) for name, value in subject.items())
    return [line for name, (first, *others) in fields for line in (f"{name:<9}  {first}", *others)]


def editable_of(subject: Mapping[str, Any]) -> Any:
    """Return what an edit of a subject starts from: a plan, the edits of a plan, or arguments."""
    if "plan" in subject:
        return subject["plan"]
    if "changes" in subject:
        return {"actions": subject.get("actions", [])}
    return subject.get("arguments", {})


def edit_hint(subject: Mapping[str, Any]) -> str:
    """Return what the value of an edit must be; empty where it is the new arguments."""
    if "plan" in subject:
        return "edit takes the whole plan: --value @plan.json"
    return "edit takes the new edits: --value '{\"actions\": […]}'" if "changes" in subject and subject["kind"] == "edits" else ""
