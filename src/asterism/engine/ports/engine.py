"""Port of engines, which decide when a process drives which run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from asterism.engine.ports.store import RunRow

Drive = Callable[[RunRow], Awaitable[None]]
"""Drives an acquired root run as far as it goes, and releases it. It raises nothing for a problem of
the run. When it is cancelled, it releases the run so that the next owner loses nothing."""


class Engine(Protocol):
    """Finds the runs that are due and has them driven.

    An engine may learn of a due run in any way, and too late or twice: ``Store.acquire_due`` is the
    only truth.
    """

    async def serve(self, drive: Drive, *, concurrency: int) -> None:
        """Have due runs driven until this is cancelled, and then return when all are released.

        Args:
            drive: called with the row of each run that this engine has acquired.
            concurrency: the most runs that are driven at once.
        """
        ...
