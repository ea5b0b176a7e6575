"""The rows of a store that are shown, as far as they are read here: ``engine.ports.store`` defines them."""

from __future__ import annotations

from typing import Protocol


class RunSummary(Protocol):
    """The row of a run."""

    @property
    def run_id(self) -> str:
        """Return its id."""

    @property
    def root(self) -> str:
        """Return the id of the run at the top of its tree."""

    @property
    def parent(self) -> str:
        """Return the id of the run that started it; empty for a root."""

    @property
    def title(self) -> str:
        """Return one line for people."""

    @property
    def state(self) -> str:
        """Return the state of its machine."""

    @property
    def status(self) -> str:
        """Return ``active``, ``paused``, ``waiting`` or ``ended``."""

    @property
    def outcome(self) -> str:
        """Return ``finished``, ``failed`` or ``cancelled``; empty before its end."""

    @property
    def session(self) -> str:
        """Return the session that it belongs to."""

    @property
    def actor(self) -> str:
        """Return who submitted it."""

    @property
    def owner(self) -> str:
        """Return the process that drives it; empty for none."""

    @property
    def seq(self) -> int:
        """Return the number of its last entry."""

    @property
    def created_at(self) -> float:
        """Return the time of its first entry, in seconds since the epoch."""

    @property
    def updated_at(self) -> float:
        """Return the time of its last entry, in seconds since the epoch."""

    @property
    def problem(self) -> str:
        """Return why its last drive ended early; empty if it did not."""

    @property
    def tries(self) -> int:
        """Return the number of drives in a row that ended with a problem."""

    @property
    def due_at(self) -> float | None:
        """Return when it is driven again by itself, in seconds since the epoch; None for never."""


class OpenQuestion(Protocol):
    """The row of an open question to a person."""

    @property
    def run_id(self) -> str:
        """Return the id of the run that asks."""

    @property
    def inquiry_id(self) -> str:
        """Return its id."""

    @property
    def prompt(self) -> str:
        """Return the question in words."""

    @property
    def verbs(self) -> tuple[str, ...]:
        """Return the answers that it accepts; none if it asks for a secret."""

    @property
    def subject(self) -> str:
        """Return the JSON text of what needs the answer."""


class PendingAnswer(Protocol):
    """The row of an answer that is not delivered to its run yet."""

    @property
    def key(self) -> str:
        """Return the id of the question, perhaps with ``#`` and a number."""

    @property
    def actor(self) -> str:
        """Return who answered."""
