"""The pool's handle of one worker: start it, send it orders, read its reports, kill it.

``worker`` is the code of its process; ``pool`` decides who uses it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from asterism.devices.attempts.log_relay import LogReader, RateLimit
from asterism.devices.attempts.processes import ProcessGroup
from asterism.devices.attempts.secrets import found_in, hidden, known_secrets
from asterism.devices.attempts.task_log import CURRENT
from asterism.devices.attempts.worker_protocol import (
    DescribeSkills,
    FunctionJob,
    Order,
    Report,
    SkillsDescribed,
    Work,
    WorkDone,
    WorkerExited,
    WorkFailed,
    WorkProgress,
    WorkStarted,
)
from asterism.devices.port import Signs
from asterism.devices.skills.source import DEPTH_VARIABLE, worker_depth

GONE_WITHIN_S = 5.0
"""Seconds that a kill waits for its processes to end; SIGKILL itself is sent at once."""

_EXIT_NOTICE_S = 2.0
_SPARE_DESCRIPTORS = 8
"""Descriptors that no start of a worker takes: the rest of this process needs some, too."""
_LINE_MARGIN_BYTES = 1 << 20  # the size of a report without its result; descriptions of skills are far smaller


class NeverStarted(Exception):
    """There is no worker, or it ended before it began the order: no code of the order has run."""


class WorkerHandle:
    """A running worker process with its socket and its log. Create one with :meth:`spawn`.

    Attributes:
        group: its process group.
        reusable: True if it can take another order: nothing of an earlier one is left in it.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        lifeline: int,
        logs: tuple[int, int],
        talk: socket.socket,
        *,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._talk = talk
        self._lifeline = lifeline
        self._logs = LogReader(logs[0], "stdout"), LogReader(logs[1], "stderr")
        self._reader = reader
        self._writer = writer
        self._decoder: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)
        self._imported: set[FunctionJob] = set()
        self.reusable = False
        self.group = ProcessGroup.of(process.pid)

    @classmethod
    async def spawn(cls, folder: Path, limit_bytes: int, env: Mapping[str, str]) -> WorkerHandle:
        """Start a worker whose sources are relative to ``folder``, with these environment variables.

        Raises OSError if no process can be started.
        """
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            here, there = socket.socketpair()
            ours.callback(here.close)
            theirs.callback(there.close)
            pipes: list[int] = []
            for _ in range(3):
                read, write = os.pipe()
                pipes += (read, write)
                ours.callback(os.close, write if len(pipes) == 2 else read)  # noqa: PLR2004 - the first is the lifeline
                theirs.callback(os.close, read if len(pipes) == 2 else write)  # noqa: PLR2004
            if max(pipes) >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_DESCRIPTORS:  # a new one is the lowest that is free
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            lifeline_read, lifeline_write, out_read, out_write, error_read, error_write = pipes
            process = subprocess.Popen(  # noqa: S603, ASYNC220  our own program; start-up is a few ms, and asyncio's own would block as long
                # -P: the working directory is the user's, and a json.py there must not shadow ours
                [sys.executable, "-P", "-m", "asterism.devices.workers.worker", str(there.fileno()), str(lifeline_read), str(folder)],
                env={**env, DEPTH_VARIABLE: str(worker_depth() + 1)},
                stdin=subprocess.DEVNULL,
                stdout=out_write,
                stderr=error_write,
                pass_fds=(there.fileno(), lifeline_read),
                start_new_session=True,
            )
            ours.callback(_end, process)
            reader, writer = await asyncio.open_connection(sock=here, limit=limit_bytes + _LINE_MARGIN_BYTES)
            ours.pop_all()
        return cls(process, lifeline_write, (out_read, error_read), here, reader=reader, writer=writer)

    async def describe(self, order: DescribeSkills) -> SkillsDescribed | WorkerExited:
        """Return the answer to a DescribeSkills."""
        self.reusable = False
        await self._send(order)
        report = await self._report()
        if not isinstance(report, SkillsDescribed):
            return report if isinstance(report, WorkerExited) else WorkerExited(None)
        self._imported |= {FunctionJob(source, order.plain) for source in order.sources}
        self.reusable = True
        return report

    async def perform(self, order: Work, signs: Signs, own: Mapping[str, str] = {}) -> WorkDone | WorkFailed | WorkerExited:
        """Return the end of a Work; meanwhile report its begin, its progress and its log lines.

        ``own`` are the secrets of this process, by name, to mask in all of them.

        Raises:
            NeverStarted: the worker process ended before the attempt started.
        """
        await signs.begun()
        self.reusable = False
        clock = asyncio.get_running_loop().time
        progress, lines = (
            RateLimit(lambda done, text: signs.progress(done, hidden(text, own)), clock, "progress report"),
            RateLimit(signs.progress, clock, "log line"),
        )
        attempt_log = CURRENT.get()
        for each in self._logs:
            each.hold()
        end: WorkDone | WorkFailed | WorkerExited | None = None
        try:
            if signs.place:
                self._send_descriptor(signs.place.hand_to(self.group.leader, self.group.born))
            if exited := await self._import(order, lines, own):
                return exited
            await self._send(order)
            if not isinstance(started := await self._report(), WorkStarted):
                raise NeverStarted("the worker ended before it began")
            for each in self._logs:
                each.begin(lines, attempt_log, {**started.secrets, **own}.values())
            end = _masked(await self._end(progress), own)
            if signs.place and self.reusable:
                signs.place.returned()
            return end
        finally:
            for each in self._logs:
                each.end()
            if attempt_log and isinstance(end, WorkFailed) and end.trace:
                attempt_log.write("stderr", end.trace.encode(errors="backslashreplace"))
            progress.note()
            lines.note()

    async def _import(self, order: Work, lines: RateLimit, own: Mapping[str, str]) -> WorkerExited | None:
        """Have the worker import the function of an attempt, once; return its end if it ended over that."""
        if not isinstance(order.job, FunctionJob) or order.job in self._imported:
            return None
        attempt_log = CURRENT.get()
        for each in self._logs:
            each.begin(lines, attempt_log, {**own, **known_secrets()}.values())
        imported = await self.describe(DescribeSkills((order.job.source,), order.job.plain, order.attempt.folder))
        self.reusable = False
        for each in self._logs:
            each.hold()
        return imported if isinstance(imported, WorkerExited) else None

    async def _end(self, progress: RateLimit) -> WorkDone | WorkFailed | WorkerExited:
        """Return the end of an attempt, once its process has ended; meanwhile report its progress."""
        end: WorkDone | WorkFailed | None = None
        while True:
            match await self._report():
                case WorkProgress(fraction, message):
                    progress.say(fraction, message)
                case (WorkDone() | WorkFailed()) as reported:
                    end = reported
                case WorkerExited() as exited:
                    self.reusable = exited.reusable and not (isinstance(end, WorkFailed) and end.missing)
                    return end or exited
                case _:
                    return end or WorkerExited(None)

    def kill_group(self) -> None:
        """Send SIGKILL to the worker and its processes; :meth:`kill` also waits and cleans up."""
        _kill_group(self._process)

    async def kill(self) -> None:
        """Kill the worker's process group and wait until it is gone.

        It may be repeated; cancelling does not undo it.
        """
        _kill_group(self._process)
        try:
            # The socket closes when the last process of the group is gone. A child that left the
            # group may hold it open.
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(_EXIT_NOTICE_S):
                    while await self._reader.read(1 << 16):
                        pass
        finally:
            self.clear_away()

    def clear_away(self) -> None:
        """Kill the worker, and give back what it holds here. Enough for an idle one, which has no processes but its own."""
        for each in self._logs:
            each.close()
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
            raise NeverStarted("the worker had ended") from error

    def _send_descriptor(self, descriptor: int) -> None:
        """Send a descriptor for the next order, with an empty line. An idle worker has read all before it."""
        try:
            socket.send_fds(self._talk, [b"\n"], [descriptor])
        except OSError as error:
            raise NeverStarted("the worker had ended") from error

    async def _report(self) -> Report:
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
                return WorkerExited(None)
            # A performer that dies in the middle of a line leaves half a line; WorkerExited comes
            # next.
            with contextlib.suppress(msgspec.DecodeError, UnicodeError):
                try:
                    return self._decoder.decode(line)
                except RecursionError:
                    return WorkFailed("bad_result", "the result has too many nested lists and objects")


def _masked(end: WorkDone | WorkFailed | WorkerExited, own: Mapping[str, str]) -> WorkDone | WorkFailed | WorkerExited:
    """Return the end of an attempt without the secrets of this process."""
    match end:
        case WorkDone(result) if found_in(bytes(result), own):
            text = hidden(bytes(result).decode(), own).encode()
            try:
                msgspec.json.decode(text)
            except msgspec.DecodeError:  # it was no text, but a number
                return WorkFailed("bad_result", "the result contains a secret of Asterism itself; return it without the secret")
            return msgspec.structs.replace(end, result=msgspec.Raw(text))
        case WorkFailed(_, message):
            return msgspec.structs.replace(end, message=hidden(message, own), trace=hidden(end.trace, own))
        case _:
            return end


def exit_text(end: WorkerExited) -> str:
    """Return how a worker's process ended, in words."""
    match end.code:
        case None:
            return "its process is gone"
        case code if code < 0:
            names = {each.value: each.name for each in signal.Signals}
            return f"its process was killed by {names.get(-code, f'signal {-code}')}"
        case code:
            return f"its process exited with code {code} during the attempt"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # The leader is not reaped yet, so its pid still names this group.
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    _kill_group(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GONE_WITHIN_S)
