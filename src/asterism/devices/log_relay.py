"""The output of a skill as progress messages, limited in length and rate; it never blocks."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

MESSAGE_CHARS = 2000
MESSAGES_PER_S = 100

_CHUNK_BYTES = 65536
_DRAIN_CHUNKS = 64  # more than a pipe holds

Sink = Callable[[float | None, str], None]


class RateLimit:
    """Passes on at most MESSAGES_PER_S messages a second, and reports how many it dropped.

    ``what`` is the word for one message in that report.
    """

    def __init__(self, sink: Sink, clock: Callable[[], float], what: str) -> None:
        self._sink = sink
        self._clock = clock
        self._what = what
        self._since = clock()
        self._passed = 0
        self._dropped = 0

    def say(self, fraction: float | None, message: str) -> None:
        """Pass on one message, cut to MESSAGE_CHARS, or drop it."""
        if not self.is_open():
            self.drop(1)
            return
        self._passed += 1
        self._sink(fraction, message if len(message) <= MESSAGE_CHARS else message[:MESSAGE_CHARS] + "…")

    def is_open(self) -> bool:
        """Return True if a message would be passed on now."""
        if self._clock() - self._since >= 1.0:
            self.note()
            self._since = self._clock()
            self._passed = 0
        return self._passed < MESSAGES_PER_S

    def drop(self, count: int) -> None:
        """Count messages that were dropped elsewhere."""
        self._dropped += count

    def note(self) -> None:
        """Report how many messages were dropped, if any."""
        if self._dropped:
            self._sink(None, f"… {self._dropped} {self._what}(s) dropped")
            self._dropped = 0


class LogReader:
    """Reads the log pipe of one worker while it lives; lines go to ``gate``, if there is one."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._rest = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._read)
        self.gate: RateLimit | None = None

    def drain(self) -> None:
        """Read what is in the pipe now: all that was printed before."""
        for _ in range(_DRAIN_CHUNKS):
            if not self._read():
                break
        if self._rest and self.gate:
            self.gate.say(None, self._rest.decode(errors="replace"))
        self._rest = b""

    def close(self) -> None:
        """Stop reading. It may be repeated."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> bool:
        if self._fd < 0:
            return False
        chunk = b""
        with contextlib.suppress(BlockingIOError):
            chunk = os.read(self._fd, _CHUNK_BYTES)
            if not chunk:
                self.close()
        if chunk:
            self._feed(chunk)
        return bool(chunk)

    def _feed(self, chunk: bytes) -> None:
        if self.gate is None or not self.gate.is_open():
            lines = chunk.count(b"\n")
            if self.gate and lines:
                self.gate.drop(lines)
            self._rest = (self._rest if not lines else b"") + chunk[chunk.rfind(b"\n") + 1 :]
        else:
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            for line in whole:
                self.gate.say(None, line.decode(errors="replace").rstrip("\r"))
        self._rest = self._rest[: 4 * MESSAGE_CHARS]  # up to 4 bytes a character; the remainder of the line is cut
