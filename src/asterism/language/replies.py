"""The meaning of a person's reply without a model: a yes, a no, a correction, an intent.

Only whole messages count: "yes" is a yes, "yes but not today" is neither yes nor no. Unclear
messages have no meaning. The intents are those of Rasa's conversation repair: cancel, skip, help,
repeat, go back, correct.
"""

from __future__ import annotations

import re
from typing import Literal

from asterism.errors import InvalidInput
from asterism.language.tokens import plain, spaced
from asterism.language.vocabulary import ASSENTS, COURTESIES, QUESTION_WORDS, REFUSALS, REPAIRS, Repair

MAX_MESSAGE_CHARS = 50_000
"""Number of characters of one message; longer texts belong in a file."""

Intent = Literal["", Repair]

# Matched against text without runs of white space, over which these patterns would backtrack.
_OPENING = r"^(?:(?:no|actually|sorry|wait|oh)\b[\s,!.-]*)*(?:please\s+)?"
_SECOND_THOUGHT = re.compile(
    r"^\s*(?:(?:no|actually|sorry|wait|oh)\b[\s,!.-]*)+(?:(?:for|on|at|in|the|next|only|just)\s+)*(\S+(?:\s+\S+)?)\s*$", re.IGNORECASE
)
SHORT = 300
"""Number of characters of a message that consists of a correction with at most two words."""
_NAMED = r"(?:the\s+|my\s+)?(?P<field>[\w' -]{1,100}?)\s*"
_VALUE = r"\s*(?P<value>\S.*)$"
_FLAGS = re.IGNORECASE | re.DOTALL
_REASON = re.compile(r"^\s*(?:no|nope|reject|deny|decline)\s*(?:[,;:.!-]+|\bbecause\b|\bsince\b)\s*(?:because\s+)?(\S.*)$", _FLAGS)
_STATED = re.compile(_OPENING + _NAMED + r"(?:\bis\b|\bare\b|\bshould be\b|:|=)" + _VALUE, _FLAGS)
_CHANGES = (
    re.compile(_OPENING + r"(?:make (?:it|that)|i meant|i mean|it should be|rather|instead)\s*[,:]?" + _VALUE, _FLAGS),
    re.compile(_OPENING + r"(?:change|set|correct|update|make|put)\s+" + _NAMED + r"\b(?:to|into|as)\b" + _VALUE, _FLAGS),
    _STATED,
)
_ASKING = re.compile(
    rf"^(?:{'|'.join(sorted(QUESTION_WORDS))})\s+(?:is|are|was|were|do|does|did|should|can|could|will|would)\b", re.IGNORECASE
)


def check_length(text: str) -> None:
    """Check that a message is not too long.

    Raises:
        InvalidInput: the message is longer than ``MAX_MESSAGE_CHARS``.
    """
    if len(text) > MAX_MESSAGE_CHARS:
        limit = f"at most {MAX_MESSAGE_CHARS:,} (MAX_MESSAGE_CHARS)"
        raise InvalidInput(f"a message of {len(text):,} characters; {limit}: write it to a file and send its path")


def is_yes(text: str) -> bool:
    """Return True for a clear yes: only words of assent, and no question."""
    return _is_all(text, ASSENTS)


def denial(text: str) -> str | None:
    """Return the reason of a clear no, empty without one; None for any other message."""
    if _is_all(text, REFUSALS):
        return ""
    found = _REASON.match(spaced(text))
    return found[1].strip() if found and not is_yes(found[1]) and correction_of(text) is None else None


def intent_of(text: str) -> Intent:
    """Return the intent of a message; empty for none."""
    said = plain(text)
    return next((intent for intent, phrases in REPAIRS.items() if said in phrases), "")


def correction_of(text: str) -> tuple[str, str] | None:
    """Return (field in the person's words, new value) of a correction.

    The field is empty in "make it 80". Return None for any other message.
    """
    said = spaced(text)
    for pattern in _CHANGES:
        found = pattern.match(said)
        field = plain(found.groupdict().get("field") or "") if found else ""
        if found and field not in ASSENTS | REFUSALS and not (pattern is _STATED and is_question(text)):
            return field, found["value"].rstrip(" .!")
    return None


def is_question(text: str) -> bool:
    """Return True for a question: by its mark, or its first words ("what is it for")."""
    return text.rstrip(" \t\n!").endswith("?") or _ASKING.match(text.strip()) is not None


def short_correction(text: str) -> str:
    """Return the value, at most two words, of a correction like "no, 5 people"; else empty."""
    said = spaced(text)
    found = _SECOND_THOUGHT.match(said) if len(said) <= SHORT else None
    return found[1].rstrip(" .!") if found else ""


def mentions_value(text: str, name: str) -> bool:
    """Return True if words give this name a value: "my PIN is 4711", "change the PIN to 4711"."""
    return re.search(rf"\b{re.escape(name)}\s*(?:\b(?:is|are|to|into|as)\b|:|=)\s*\S", text, re.IGNORECASE) is not None


def _is_all(text: str, words: frozenset[str]) -> bool:
    said = plain(text)
    parts = re.split(r"\s*[,;.!]+\s*", said)
    is_made_of = all(part in words or part in COURTESIES for part in parts if part) and any(part in words for part in parts)
    return "?" not in text and (said in words or is_made_of)
