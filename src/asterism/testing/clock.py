"""The clock of a world."""

from __future__ import annotations

import asyncio
import itertools

EPOCH = 1_767_225_600.0
"""Start time of every world: 1 January 2026, in seconds since the epoch."""


class WorldClock:
    """Virtual time since ``EPOCH``, and consecutive ids."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)

    def now(self) -> float:
        """Return seconds since the epoch."""
        return EPOCH + asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        """Return virtual seconds."""
        return asyncio.get_running_loop().time()

    def new_id(self) -> str:
        """Return the next id: ``sim-1``, then ``sim-2``."""
        return f"sim-{next(self._ids)}"
