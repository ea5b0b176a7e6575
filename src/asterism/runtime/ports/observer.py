"""An observer: who watches runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from asterism.kernel.journal import Entry


class Observer(Protocol):
    """Watches runs; nothing depends on what it does, and it must not block."""

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        """These entries are durable now."""
        ...

    def trouble(self, run_id: str, message: str) -> None:
        """Something is wrong that the driver is dealing with; said aloud."""
        ...
