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
from asterism.engine.ports.store import InquiryRow
from asterism.views.text import questions
from asterism.views.text.questions import MAX_SUBJECT, folded_subject, invalid_subject
from asterism.views.words import folded, plain, printable, whole

MAX_LINES = 200
"""Lines of one proposal in a list at most; ``subject_lines`` has all."""

ALWAYS = {"always": True}
"""Value of an answer that approves a tool for the rest of a run."""


class _Proposal(msgspec.Struct):
    """The fields of a proposal that are read here."""

    thought: str = ""
    plan: dict[str, Any] = {}
    changes: list[Change] = []


def subject_of(row: InquiryRow) -> dict[str, Any]:
    """Return the subject of a question.

    Raises:
        InvalidInput: the subject in the database is invalid.
    """
    subject = questions.subject_of(row)
    try:
        if "kind" in subject:
            msgspec.convert(subject, _Proposal)
    except msgspec.MsgspecError as error:
        raise invalid_subject(row, error) from None
    return subject


def proposal_lines(subject: Mapping[str, Any]) -> list[str]:
    """Return the subject of a question in short, for a list: a proposal as a graph or as changes, any other one in one line."""
    if "kind" not in subject:
        return folded_subject(subject)
    lines = [f"thought: {plain(subject['thought'], 1000)}"] if subject.get("thought") else []
    if "plan" in subject:
        lines += [str(line) for line in plan_lines(TaskConstellation.from_dict(subject["plan"]))]
    lines += [
        f"{name}: {folded(json.dumps(subject[name], ensure_ascii=False), MAX_SUBJECT)}" for name in ("params", "inputs") if name in subject
    ]
    lines += [change_words(change) for change in msgspec.convert(subject.get("changes", []), list[Change])]
    return lines if len(lines) <= MAX_LINES else [*lines[:MAX_LINES], f"… and {len(lines) - MAX_LINES} more lines"]


def subject_lines(row: InquiryRow) -> list[str]:
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
