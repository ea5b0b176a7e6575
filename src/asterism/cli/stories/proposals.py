"""What a person is asked to approve, drawn: a plan as a picture, edits as before and after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from asterism.cli.stories.picture import plan_lines
from asterism.constellation.changes import Change
from asterism.constellation.constellation import TaskConstellation
from asterism.errors import InvalidInput
from asterism.runtime.ports.store import InboxRow, InquiryRow
from asterism.views.plan_history import change_words
from asterism.views.words import plain

MAX_LINES = 200
"""Lines of one picture; ``asterism inbox --json`` has all."""
MAX_WHAT = 2000
"""Characters of what is shown of anything else; ``asterism inbox`` has all."""


class _Proposal(msgspec.Struct):
    """The fields of a proposal that are looked into here."""

    thought: str = ""
    plan: dict[str, Any] = {}
    changes: list[Change] = []


def subject_of(row: InquiryRow) -> dict[str, Any]:
    """What a question is about.

    Raises:
        InvalidInput: its row in the database was changed, and is none of ours any more.
    """
    try:
        subject = msgspec.json.decode(row.subject or "{}", type=dict[str, Any])
        if "kind" in subject:
            msgspec.convert(subject, _Proposal)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"question {row.inquiry_id}: its subject in the database was changed: {error}") from None
    return subject


def answer_line(row: InquiryRow, answer: InboxRow | None, root: str, go_on: str = "") -> str:
    """How a question is answered, or who has done so.

    Args:
        row: the question.
        answer: the one that its run has not taken yet.
        root: id of the run at the top.
        go_on: what goes on with it; by default ``asterism resume``.
    """
    root = plain(root)
    if answer is not None:
        return f"answered by {plain(answer.actor)}; it is taken when somebody goes on with: {plain(go_on) or f'asterism resume {root}'}"
    if not row.verbs:
        return f"asterism resume {root}   at a terminal, where the secret is typed: it is written nowhere"
    return f"asterism answer {plain(row.inquiry_id)} {'|'.join(row.verbs)}"


def proposal_lines(subject: Mapping[str, Any]) -> list[str]:
    """The subject of a question about a proposal, in lines; of any other question its fields, in one."""
    if "kind" not in subject:
        return _whole(subject)
    lines = [f"thought: {plain(subject['thought'], 1000)}"] if subject.get("thought") else []
    if "plan" in subject:
        lines += [line.plain for line in plan_lines(TaskConstellation.from_dict(subject["plan"]))]
    lines += [change_words(change) for change in msgspec.convert(subject.get("changes", []), list[Change])]
    return lines if len(lines) <= MAX_LINES else [*lines[:MAX_LINES], f"… and {len(lines) - MAX_LINES} lines more"]


def _whole(subject: Mapping[str, Any]) -> list[str]:
    # What is approved is exactly this: where it is cut, that is said.
    fields = (f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}" for name, value in subject.items())
    text = " ".join(fields)
    return [f"what: {plain(text, MAX_WHAT)}", *(["      cut here; whole in: asterism inbox"] if len(text) > MAX_WHAT else [])]


def how_to_edit(subject: Mapping[str, Any]) -> str:
    """What an edit of it by hand is; empty where it is the new arguments."""
    if "plan" in subject:
        return "an edit gives the whole plan: --value @plan.json"
    return "an edit gives the edits instead: --value '{\"actions\": […]}'" if "changes" in subject and subject["kind"] == "edits" else ""
