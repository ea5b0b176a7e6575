"""Port of runs, those of a database or of a server, for those who read them and send them commands."""

from __future__ import annotations

from typing import Protocol

from asterism.engine.kernel.machine import Event
from asterism.engine.ports.store import InquiryRow, RunReader, RunRow


class Runs(Protocol):
    """The runs of a database (``Client``) or of a server (``RemoteApp``); errors and arguments as of ``Client``."""

    @property
    def store(self) -> RunReader:
        """Return what reads their journals, logs and questions."""
        ...

    async def describe(self, run_id: str) -> RunRow:
        """Return the row of a run."""
        ...

    async def inquiries(self, *, root: str | None = None) -> list[InquiryRow]:
        """Return the open questions of a run and of the runs below it, or of all."""
        ...

    async def send(self, run_id: str, event: Event, *, actor: str) -> str:
        """Send a command to a run, and return the verdict on it."""
        ...

    async def fork(self, run_id: str, at: int, *, actor: str) -> str:
        """Let a new run begin as a copy of another one up to an entry, and return its id."""
        ...
