"""Secret fields: find their values in a message by their patterns, and show at most the last characters of a value."""

from __future__ import annotations

import re
from typing import Any

from asterism.conversation.python.agent_state import masked
from asterism.conversation.python.fields import PATTERN_TIMEOUT_S, Field
from asterism.conversation.python.secret_store import PLACEHOLDER

MAX_VALUES = 20
"""Values of one field that are looked for in a message at most; with more, all of it counts as secret."""


def masked_text(agent: Any, text: str) -> str:
    """Return a text for the person with the secrets of an agent masked."""
    for name, field in agent.input_fields().items():
        value = agent.collected_fields.get(name) if field.secret and field.show_last else None
        if value is not None and str(value):
            text = text.replace(str(value), masked(field, value))
    return text


def values_by_pattern(fields: dict[str, Field], text: str) -> list[tuple[str, str]]:
    """Return the values that the patterns of secret fields find in a text, with the names of their fields.

    Where a search takes too long, or finds very many, the whole text counts as a value.
    """
    found: list[tuple[str, str]] = []
    for name, field in fields.items():
        if not field.secret or field.compiled is None:
            continue
        own: list[tuple[str, str]] = []
        try:
            for match in field.compiled.finditer(text, timeout=PATTERN_TIMEOUT_S):
                value = next((group for group in match.groups() if group), "") if match.re.groups else match[0]
                own += [(name, value)] if value.strip() else []
                if len(own) > MAX_VALUES:
                    own = [(name, text)]
                    break
        except TimeoutError:
            own = [(name, text)]
        found += own
    return found


def without_values(fields: dict[str, Field], text: str) -> str:
    """Return a text with the values that the patterns of secret fields find replaced by a placeholder."""
    for _, value in sorted(values_by_pattern(fields, text), key=lambda pair: -len(pair[1])):
        text = text.replace(value, PLACEHOLDER)
    return text


def rest_without(field: Field, labels: tuple[str, ...], text: str, value: str) -> str:
    """Return a message without a value of a secret field, and without the label before it ("my account is …")."""
    before, _, after = text.partition(value)
    names = "|".join(re.escape(label) for label in sorted((field.label, field.name, *field.words, *labels), key=len, reverse=True))
    before = re.sub(rf"[\s,;]*\b(?:{names})\b\W*(?:\w{{2,8}}\b\W*)?$", "", f"{before} ", flags=re.IGNORECASE)
    return " ".join(f"{before.rstrip()} {after.strip()}".split()).strip(" ,;.")
