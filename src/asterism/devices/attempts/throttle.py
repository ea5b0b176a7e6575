"""Limit the progress reports of an attempt, so that they do not flood its run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

REPORT_EVERY_S = 0.25
MAX_REPORTS = 500
MAX_MESSAGES = 20
MAX_MESSAGE_LENGTH = 500


class Throttle:
    """Passes on the first report at once, then at most one per ``REPORT_EVERY_S`` seconds.

    At most ``MAX_REPORTS`` are passed on in all.

    Reports in between are merged: the latest fraction, and the last ``MAX_MESSAGES`` messages in
    order, one per line, each cut at ``MAX_MESSAGE_LENGTH``, and the number of those that were left
    out. The last report is always passed on, at the latest by ``close``.
    """

    __slots__ = ("_closed", "_fraction", "_left_out", "_messages", "_next_at", "_passed", "_pending", "_sink", "_timer")

    def __init__(self, sink: Callable[[float | None, str], None]) -> None:
        self._sink = sink
        self._passed = 0
        self._next_at = 0.0
        self._pending = False
        self._fraction: float | None = None
        self._messages: deque[str] | None = None
        self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def report(self, fraction: float | None, message: str) -> None:
        """Accept a report. After ``close`` it is ignored, and so is a blank message without a fraction, as of an empty line."""
        if self._closed or (fraction is None and not message.strip()):
            return
        self._merge(fraction, message)
        if self._passed >= MAX_REPORTS - 1 or self._timer is not None:
            return  # the last report of all is left for close()
        loop = asyncio.get_running_loop()
        if self._passed == 0 or loop.time() >= self._next_at:
            self._pass_on()
        else:
            self._timer = loop.call_at(self._next_at, self._pass_on)

    def close(self) -> None:
        """Pass on what is pending, and nothing after it."""
        if self._pending and not self._closed:
            self._pass_on()
        self._closed = True

    def _merge(self, fraction: float | None, message: str) -> None:
        self._pending = True
        if fraction is not None:
            self._fraction = fraction
        if message.strip():
            if self._messages is None:
                self._messages = deque(maxlen=MAX_MESSAGES)
            self._left_out += len(self._messages) == MAX_MESSAGES
            self._messages.append(_cut(message))

    def _pass_on(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines = list(self._messages or ())
        if self._left_out:
            lines.insert(0, f"({self._left_out} earlier messages left out)")
        fraction = self._fraction
        self._pending = False
        self._fraction = None
        self._messages = None
        self._left_out = 0
        self._passed += 1
        self._next_at = asyncio.get_running_loop().time() + REPORT_EVERY_S
        self._sink(fraction, "\n".join(lines))


def _cut(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE_LENGTH else message[: MAX_MESSAGE_LENGTH - 1] + "…"
