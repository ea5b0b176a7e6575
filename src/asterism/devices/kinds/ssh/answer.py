"""The answer of a host about one attempt: its state, its output and its errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from asterism.devices.attempts.log_relay import MESSAGE_CHARS, RateLimit
from asterism.devices.attempts.task_log import CURRENT as LOG
from asterism.devices.kinds.ssh.script import BEGIN, STARTED, STATE, is_exit_code
from asterism.devices.model.attempt import ErrorCode
from asterism.devices.skills.command import STDERR_BYTES
from asterism.devices.workers.pool import RESULT_BYTES

_HEAD_BYTES = 65536
"""Bytes of one line before the state of the attempt; what a login script prints may be anything."""

NOT_STARTED: Mapping[str, tuple[ErrorCode, str]] = {
    "no setsid": ("no_device", "the host has no program setsid; install util-linux or busybox"),
    "unwritable": ("crashed", "it was not started: ~/.asterism on the host cannot be written"),
    "unstarted": ("crashed", "it was not started: the host ran none of it within 5 s"),
}
ENDED: Mapping[str, tuple[ErrorCode, str]] = {
    "stopped": ("cancelled", "it was stopped on the host"),
    "interrupted": ("interrupted", "its process on the host was killed, or the host was restarted; it may have done its work"),
    "missing": ("interrupted", "its folder on the host is gone; it may have done its work"),
}


class HostAnswer:
    """What the host reports about one attempt, over any number of connections.

    Args:
        known: the attempt has been started before: it is only looked for.

    Attributes:
        started: set once the host reports that the attempt has started.
        state: its state on the host; empty while it runs.
        output: its stdout.
        errors: the end of its stderr.
    """

    def __init__(self, progress: Callable[[float | None, str], None], *, known: bool = False) -> None:
        self.known = known
        self.started = asyncio.Event()
        self.state = ""
        self.output = bytearray()
        self.errors = b""
        self._errors_seen = 0
        self._rest = b""
        self._heads = {"out": b"", "err": b""}
        self._begun = {"out": False, "err": False}
        self._gate = RateLimit(progress, asyncio.get_running_loop().time, "line")

    @property
    def seen(self) -> tuple[int, int]:
        """Return the number of bytes of stdout and of stderr that have arrived."""
        return len(self.output), self._errors_seen

    def begin(self) -> None:
        """Expect the beginning of another script, from the bytes that have been seen."""
        self.state = ""
        self._heads = {"out": b"", "err": b""}
        self._begun = {"out": False, "err": False}

    def stdout(self, chunk: bytes) -> bool:
        """Take the lines of the script, and after its state the stdout of the program; return False if that is too large."""
        if self.state:
            self.output += chunk
            return len(self.output) <= RESULT_BYTES + 1
        *lines, rest = (self._heads["out"] + chunk).split(b"\n")
        for index, line in enumerate(lines):
            self._begun["out"] = self._begun["out"] or line == BEGIN
            if not self._begun["out"]:
                continue
            if line == STARTED:
                self.started.set()
            if line.startswith(STATE):
                self.state = line.removeprefix(STATE).decode(errors="replace")
                if is_exit_code(self.state) or self.state in {"full", *ENDED}:
                    self.started.set()
                self.output += b"\n".join([*lines[index + 1 :], rest])
                return True
        self._heads["out"] = rest[-_HEAD_BYTES:]
        return True

    def stderr(self, chunk: bytes) -> bool:
        """Take the stderr of the program: its lines become progress."""
        if not self._begun["err"]:
            head = self._heads["err"] + chunk
            before, found, chunk = head.partition(BEGIN + b"\n")
            if not found:
                self._heads["err"] = before[-_HEAD_BYTES:]
                return True
            self._begun["err"] = True
        self._errors_seen += len(chunk)
        if (attempt_log := LOG.get()) is not None:
            attempt_log.feed("stderr", chunk)
        self.errors = (self.errors + chunk)[-STDERR_BYTES:]
        *lines, rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._gate.say(None, line.decode(errors="replace").rstrip("\r"))
        self._rest = rest[: 4 * MESSAGE_CHARS]
        return True

    def end(self) -> None:
        """Report the last line, and how many lines were dropped."""
        if self._rest:
            self._gate.say(None, self._rest.decode(errors="replace"))
        self._gate.note()
