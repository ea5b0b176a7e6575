"""Port of observers, which watch runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from asterism.engine.kernel.journal import Entry


class Observer(Protocol):
    """Watches runs. No run depends on it, and it must not block."""

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Handle entries that are durable now."""
        ...

    def trouble(self, run_id: str, message: str) -> None:
        """Handle a problem that the driver is dealing with."""
        ...
