"""Where secrets are: in the process that has heard them, and nowhere else."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from asterism.flows.agent_state import MIN_SECRET
from asterism.machines.flow_agent.events import Message

PLACEHOLDER = "[secret]"
"""What the journal has in place of words that tell a secret."""


class SecretStore:
    """Secrets of the conversations that this process holds. They are nowhere else."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[str, str, dict[str, Any]]] = {}
        self._values: dict[str, dict[str, Any]] = {}

    def put(self, run_id: str, token: str, text: str, values: dict[str, Any]) -> None:
        """Keep a message of a conversation with a secret in it under a token: its words, and its fields by name."""
        self._said[token] = run_id, text, values

    def heard(self, message: Message) -> Message:
        """A message as it was said; what this process has not heard of it is missing."""
        unheard = "" if message.text == PLACEHOLDER else message.text
        _, text, values = self._said.get(message.secret, ("", unheard, message.values))
        return msgspec.structs.replace(message, text=text, values=values)

    def has_heard(self, run_id: str, text: str) -> bool:
        """Whether these words are a secret of a conversation, or of one below it, already; short ones are like any other words."""
        known = [said for of, said, _ in self._said.values() if of == run_id]
        known += [str(value) for of, values in self._values.items() if f"{of}.".startswith(f"{run_id}.") for value in values.values()]
        return len(text) >= MIN_SECRET and text in known

    def of(self, run_id: str) -> dict[str, Any]:
        """The secret fields of a conversation."""
        return self._values.setdefault(run_id, {})

    def keep(self, run_id: str, values: dict[str, Any], token: str) -> None:
        """Keep what a handler has collected of them."""
        self._said.pop(token, None)
        if values:
            self._values[run_id] = values
        else:
            self._values.pop(run_id, None)


@functools.cache
def process_vault() -> SecretStore:
    """The secrets of this process."""
    return SecretStore()
