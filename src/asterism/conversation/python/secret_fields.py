"""Secret fields: keep their values in the memory of the process that received them, and find them in a message.

Of a value, at most the last characters are shown.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec

from asterism.conversation.machine.events import Message
from asterism.conversation.python.agent_state import MIN_SECRET, masked
from asterism.conversation.python.fields import PATTERN_TIMEOUT_S, Field

PLACEHOLDER = "[secret]"
"""Stands in the journal in place of a text with a secret."""
MAX_VALUES = 20
"""Values of one field that are looked for in a message at most; with more, all of it counts as secret."""


class SecretStore:
    """The secrets of conversations, in the memory of this process only."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[str, str, dict[str, Any]]] = {}
        self._values: dict[str, dict[str, Any]] = {}

    def put(self, run_id: str, token: str, text: str, values: dict[str, Any]) -> None:
        """Store, under a token, the text and the field values of a message that contains a secret."""
        self._said[token] = run_id, text, values

    def drop(self, token: str) -> None:
        """Forget a message that was not sent."""
        self._said.pop(token, None)

    def original(self, message: Message) -> Message:
        """Return the original message; without the parts that this process does not have."""
        known_text = message.text.replace(PLACEHOLDER, "").strip()
        _, text, values = self._said.get(message.secret, ("", known_text, message.values))
        return msgspec.structs.replace(message, text=text, values=values)

    def knows(self, run_id: str, text: str) -> bool:
        """Return True if a text is a known secret of a conversation or of its children; short texts are never."""
        known = [said for owner, said, _ in self._said.values() if owner == run_id]
        known += [str(value) for owner, values in self._values.items() if f"{owner}.".startswith(f"{run_id}.") for value in values.values()]
        return len(text) >= MIN_SECRET and text in known

    def of(self, run_id: str) -> dict[str, Any]:
        """Return the secret field values of a conversation, by name."""
        return self._values.setdefault(run_id, {})

    def keep(self, run_id: str, values: dict[str, Any], token: str) -> None:
        """Store the secret field values after a handler, and forget the message it has read."""
        self._said.pop(token, None)
        if values:
            self._values[run_id] = values
        else:
            self._values.pop(run_id, None)


@functools.cache
def process_secret_store() -> SecretStore:
    """Return the secret store of this process."""
    return SecretStore()


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
