"""The store of secrets, in the memory of the process that received them."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from asterism.conversation.machine.events import Message
from asterism.conversation.python.agent_state import MIN_SECRET

PLACEHOLDER = "[secret]"
"""Stands in the journal in place of a text with a secret."""


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
