"""Messages that change several things at once: "the day is Saturday, and make it 5"."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from asterism.conversation.python.answers import said_by_name
from asterism.conversation.python.named_texts import places_of_names
from asterism.conversation.python.pattern_values import apart, found_by_patterns, given_by_patterns
from asterism.conversation.python.slot_filling import DialogueAgent, read_message
from asterism.words.reading.tokens import MAX_READ

MAX_PARTS = 5
"""Parts that one message is divided into at most."""


def parts_of(agent: DialogueAgent, text: str) -> list[str]:
    """Return the parts of a message that each change something; the whole message if they are not clearly apart."""
    found: list[str] = []
    rest = text
    while len(found) < MAX_PARTS - 1 and (pair := _divided(agent, rest)) is not None:
        found.append(pair[0])
        rest = pair[1]
    return [*found, rest]


def _divided(agent: DialogueAgent, text: str) -> tuple[str, str] | None:
    """Return what is before a change by name, and the change; or a change by name, and the values after it."""
    whole = said_by_name(agent, text)
    for left, right in _places(agent, text):
        if (
            whole is not None
            and whole.what == "set"
            and said_by_name(agent, left) == msgspec.structs.replace(whole, what="wrong", value="")
        ):
            continue  # "that's not my name, it's Ray" changes one thing
        names = [said_by_name(agent, part) is not None for part in (left, right)]
        if names[1] or (names[0] and _is_clear(agent, right)):
            return left, right
    return None


def _places(agent: DialogueAgent, text: str) -> Iterator[tuple[str, str]]:
    ands = "|".join(re.escape(" ".join(phrase[:-1])) for phrase, key in agent._state.setting.words.phrases["words"].items() if key == "and")
    if len(text) <= MAX_READ:
        for found in re.finditer(rf"(?:[.;!,]\s+(?:(?:{ands})\s+)?|\s+(?:{ands})\s+)", text, re.IGNORECASE):
            if text[: found.start()].strip() and text[found.end() :].strip():
                yield text[: found.start()].strip(), text[found.end() :].strip()
        for start in places_of_names(agent, text)[1:]:  # "folder: data month: 2026-11"
            yield text[:start].strip(), text[start:]


def _is_clear(agent: DialogueAgent, part: str) -> bool:
    by_pattern = apart(found_by_patterns(agent, part), part) | given_by_patterns(agent, part)
    for value in by_pattern.values():
        part = part.replace(value, ",")
    found = read_message(agent, part)
    return bool(found.taken or by_pattern) and not found.unknown and not found.negates and not found.troubles
