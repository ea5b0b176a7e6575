"""The output of a skill, whole for its log, and as progress messages that are limited in length and rate."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable

from asterism.devices.attempts.secrets import Masker
from asterism.devices.attempts.task_log import AttemptLog
from asterism.engine.ports.logs import Stream

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
    """Reads a pipe with one stream of a worker while it lives.

    Lines go to ``gate`` and everything to the log, if there are any. While the log is full, the pipe is
    not read, so that the skill waits.
    """

    def __init__(self, fd: int, stream: Stream = "stdout") -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._stream: Stream = stream
        self._rest = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._read)
        self._masker = Masker(())
        self._log: AttemptLog | None = None
        self.gate: RateLimit | None = None

    def hold(self) -> None:
        """Discard what is in the pipe, and read no further until ``begin``."""
        self.drain()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)

    def begin(self, gate: RateLimit, log: AttemptLog | None, secrets: Iterable[str]) -> None:
        """Read the output of an attempt, with these values masked."""
        self.gate, self._log, self._masker = gate, log, Masker(secrets)
        self._resume()

    def end(self) -> None:
        """Read the rest of the output of an attempt; discard what comes after it."""
        self.drain()
        self.gate, self._log, self._masker = None, None, Masker(())
        self._resume()

    def _resume(self) -> None:
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._read)

    def drain(self) -> None:
        """Read what is in the pipe now: all that was printed before."""
        for _ in range(_DRAIN_CHUNKS):
            if not self._read():
                break
        self._pass_on(self._masker.feed(b"", last=True))
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
            self._pass_on(self._masker.feed(chunk))
        return bool(chunk)

    def _pass_on(self, chunk: bytes) -> None:
        if not chunk:
            return
        self._feed(chunk)
        if self._log:
            self._log.write(self._stream, chunk)
            if self._log.writer.is_full and self._fd >= 0:
                self._loop.remove_reader(self._fd)
                self._log.writer.when_ready(self._resume)

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
