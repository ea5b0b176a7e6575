"""Values that the patterns of fields find in a message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from asterism.conversation.python.fields import Field
from asterism.conversation.python.slot_filling import DialogueAgent
from asterism.words.reading.tokens import tokens


def found_by_patterns(agent: DialogueAgent, text: str) -> dict[str, Any]:
    """Return what the patterns of the missing fields find in a message, by name; ``unread`` has those that took too long.

    A group that ends within a number ("50" of "12,50") is no value. What several patterns find is that of the field which
    was asked for; if none of them was, it is left out, and their questions follow.
    """
    state, fields = agent._state, agent.input_fields()
    state.unread = set()
    spans: dict[str, tuple[int, int]] = {}
    for name in agent._get_missing_fields():
        try:
            span = _span(fields[name], text) if name in fields else None
        except TimeoutError:
            state.unread.add(name)
        else:
            spans |= {name: span} if span is not None else {}
    shared = {span for span in spans.values() if list(spans.values()).count(span) > 1}
    return {name: text[slice(*span)] for name, span in spans.items() if span not in shared or name == state.asked_field}


def given_by_patterns(agent: DialogueAgent, text: str) -> dict[str, str]:
    """Return what the patterns of the fields that have a value find in a message, as words of their own, by name."""
    fields = agent.input_fields()
    spans: dict[str, tuple[int, int]] = {}
    for name in agent.collected_fields.keys() & fields.keys():
        try:
            span = None if fields[name].secret else _span(fields[name], text)
        except TimeoutError:
            continue
        spans |= {name: span} if span is not None else {}
    return apart({name: text[slice(*span)] for name, span in spans.items()}, text)


def apart(found: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the texts that are words of their own in a message: "2026-11" in "for 2026-11", not in "data/2026-11"."""
    return {name: it for name, it in found.items() if isinstance(it, str) and re.search(_APART.format(re.escape(it)), text)}


def without_word(text: str, word: str) -> str:
    """Return a message with a comma in place of a text that is a word of its own in it."""
    return re.sub(_APART.format(re.escape(word)), " , ", text, count=1)


_APART = r"(?:^|(?<=[\s\"'(,;:=])){}(?=[\s\"'),;:]|[.!?]+(?:\s|$)|$)"


def _span(field: Field, text: str) -> tuple[int, int] | None:
    """Return the place of the value that the pattern of a field finds; None for none."""
    match = field.search(text)
    if match is None:
        return None
    groups = range(1, len(match.groups()) + 1) if match.groups() else [0]
    spans = [match.span(group) for group in groups if match[group] is not None]
    return spans[0] if spans and text[slice(*spans[0])] and not _cuts_a_number(text, *spans[0]) else None


def _cuts_a_number(text: str, start: int, end: int) -> bool:
    numbers = [it for it in tokens(text) if it.kind == "number"]
    is_minus = (
        start > 0
        and text[start - 1] in "-\u2212"
        and text[start : start + 1].isdigit()
        and not text[max(0, start - 2) : start - 1].isalnum()
    )
    return is_minus or any(it.start < start < it.end or it.start < end < it.end for it in numbers)
