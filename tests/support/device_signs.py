"""The signs of an attempt, as a test notes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from asterism.devices.port import HeldPlace, finished


class Heard:
    """Everything that a device reports about one attempt.

    Args:
        awaited: beginning of the message that sets ``arrived``.
        listener: called with each progress report.
        place: the place that the attempt has.

    Attributes:
        reports: the progress reports.
        handles: the handles of ``attached``.
        signs: ``queued``, ``begun`` and ``progress`` in order; of several reports in a row only the first.
    """

    def __init__(
        self, awaited: str = "waiting", *, listener: Callable[[float | None, str], None] = lambda *_: None, place: HeldPlace | None = None
    ) -> None:
        self.place = place
        self.reports: list[tuple[float | None, str]] = []
        self.handles: list[str] = []
        self.signs: list[str] = []
        self.arrived = asyncio.Event()
        self._awaited = awaited
        self._listener = listener

    def progress(self, fraction: float | None = None, message: str = "") -> None:
        self.reports.append((fraction, message))
        self._listener(fraction, message)
        if self.signs[-1:] != ["progress"]:
            self.signs.append("progress")
        if self._awaited in message:
            self.arrived.set()

    def queued(self, reason: str = "") -> None:
        self.signs.append(f"queued: {reason}" if reason else "queued")

    async def begun(self) -> None:
        self.signs.append("begun")

    def attached(self, handle: str) -> asyncio.Future[None]:
        self.handles.append(handle)
        return finished()

    def messages(self) -> list[str]:
        return [message for _, message in self.reports]
