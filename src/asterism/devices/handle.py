"""One worker as its pool holds it: start it, give it orders, hear its reports, kill it.

Not here: what its process does (``worker``), and who gets it (``pool``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from asterism.devices.log_relay import LogReader, RateLimit
from asterism.devices.process import birth
from asterism.devices.worker_protocol import Order, Report, SkillsDescribed, WorkDone, WorkerExited, WorkFailed, WorkProgress, WorkStarted

GONE_WITHIN_S = 5.0
"""How long a kill waits to see its processes gone; SIGKILL itself is sent at once."""

_EXIT_NOTICE_S = 2.0
_LINE_MARGIN_BYTES = 1 << 20  # a report is its result and little more; skill descriptions are far below this


class NeverStarted(Exception):
    """There is no worker, or it was gone before it began the order: nothing of the order has run."""


class WorkerHandle:
    """A live worker process, its conversation and its log. Make one with :meth:`spawn`."""

    def __init__(
        self, process: subprocess.Popen[bytes], lifeline: int, log: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._lifeline = lifeline
        self._logs = LogReader(log)
        self._reader = reader
        self._writer = writer
        self._decoder: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)
        self.pid = process.pid
        self.birth = birth(process.pid) or "unknown"

    @classmethod
    async def spawn(cls, folder: Path, limit_bytes: int) -> WorkerHandle:
        """Start a worker whose sources are relative to ``folder``. Raises OSError if no process can be started."""
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            here, there = socket.socketpair()
            ours.callback(here.close)
            theirs.callback(there.close)
            pipes: list[int] = []
            for _ in range(2):
                read, write = os.pipe()
                pipes += (read, write)
            lifeline_read, lifeline_write, log_read, log_write = pipes
            for stack, fd in ((theirs, lifeline_read), (ours, lifeline_write), (ours, log_read), (theirs, log_write)):
                stack.callback(os.close, fd)
            process = subprocess.Popen(  # noqa: S603, ASYNC220  our own program; start-up is a few ms, and asyncio's own would block as long
                # -P: the working directory is the user's; a json.py in it must not become ours
                [sys.executable, "-P", "-m", "asterism.devices.worker", str(there.fileno()), str(lifeline_read), str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=log_write,
                stderr=log_write,
                pass_fds=(there.fileno(), lifeline_read),
                start_new_session=True,
            )
            ours.callback(_end, process)
            reader, writer = await asyncio.open_connection(sock=here, limit=limit_bytes + _LINE_MARGIN_BYTES)
            ours.pop_all()
        return cls(process, lifeline_write, log_read, reader, writer)

    async def describe(self, order: Order) -> SkillsDescribed | WorkerExited:
        """The answer to a Describe."""
        await self._send(order)
        report = await self._report()
        return report if isinstance(report, (SkillsDescribed, WorkerExited)) else WorkerExited(None)

    async def perform(self, order: Order, say: Callable[[float | None, str], None]) -> WorkDone | WorkFailed | WorkerExited:
        """The end of a Work; until then its progress and its log lines go to ``say``.

        Raises:
            NeverStarted: the worker was gone before.
        """
        clock = asyncio.get_running_loop().time
        progress, lines = RateLimit(say, clock, "progress report"), RateLimit(say, clock, "log line")
        self._logs.gate = lines
        try:
            await self._send(order)
            if not isinstance(await self._report(), WorkStarted):
                raise NeverStarted("the worker ended before it began")
            while True:
                match await self._report():
                    case WorkProgress(fraction, message):
                        progress.say(fraction, message)
                    case (WorkDone() | WorkFailed() | WorkerExited()) as end:
                        return end
                    case _:
                        return WorkerExited(None)
        finally:
            self._logs.drain()
            progress.note()
            lines.note()
            self._logs.gate = None

    def kill_group(self) -> None:
        """Send SIGKILL to the worker and all that it started, without waiting; :meth:`kill` clears away."""
        _kill_group(self._process)

    async def kill(self) -> None:
        """Kill the worker's process group and see it gone. Harmless when repeated; cancelling it does not undo it."""
        _kill_group(self._process)
        try:
            # The last of them closes its end: the event that says they are gone. A child that left the group may hold it open.
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(_EXIT_NOTICE_S):
                    while await self._reader.read(1 << 16):
                        pass
        finally:
            self._logs.close()
            self._writer.transport.abort()
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1
            _end(self._process)

    async def _send(self, order: Order) -> None:
        self._writer.write(msgspec.json.encode(order) + b"\n")
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise NeverStarted("the worker was gone") from error

    async def _report(self) -> Report:
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
                return WorkerExited(None)
            # A performer that dies in the middle of a line leaves half of one; Exited comes next.
            with contextlib.suppress(msgspec.DecodeError, UnicodeError):
                try:
                    return self._decoder.decode(line)
                except RecursionError:
                    return WorkFailed("bad_result", "the result has too many lists and objects within each other")


def exit_text(end: WorkerExited) -> str:
    """How a performer's process ended, in words."""
    match end.code:
        case None:
            return "its process is gone"
        case code if code < 0:
            names = {each.value: each.name for each in signal.Signals}
            return f"its process was killed by {names.get(-code, f'signal {-code}')}"
        case code:
            return f"its process exited with code {code} in the middle of it"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # The leader is not reaped yet, so that its pid still names its group and no other.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    _kill_group(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GONE_WITHIN_S)
