"""Fleet kind ``ssh``: programs on another computer, over SSH.

An attempt runs on the host, in a session and a folder of its own (``ssh_script``), and goes on
without a connection. So it is found again by its key: after a lost connection, after a crash of
this process, and from another computer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from asterism.constellation.environment import check_process
from asterism.constellation.profile import AgentProfile
from asterism.constellation.task import ErrorCode, TaskError
from asterism.devices.command import STDERR_BYTES, filled, outcome, too_large
from asterism.devices.fleet import DeviceEntry, DeviceKind
from asterism.devices.local import CommandEntry, check_argv, command_skill
from asterism.devices.log_relay import MESSAGE_CHARS, RateLimit
from asterism.devices.pool import RESULT_BYTES
from asterism.devices.ssh_connection import Address, Host, HostError, HostSettings, is_installed
from asterism.devices.ssh_script import (
    BEGIN,
    STARTED,
    STATE,
    aged_script,
    command_script,
    folder_of,
    follow_script,
    start_script,
    stop_script,
)
from asterism.devices.worker_protocol import AttemptError, CommandJob
from asterism.errors import InvalidInput, MissingExtra
from asterism.runtime.ports.device import Attempt, AttemptResult, Notices, Signs

DURABLE_S = 60.0
"""Seconds after which a reported result counts as written to the journal, so that its folder can go."""
STOP_S = 15.0

_FIRST_WAIT_S, _LAST_WAIT_S = 1.0, 60.0
"""Seconds between two tries to connect: at first, and at most."""
_MOST_DROPS = 10
"""Lost connections that one attempt survives without being performed again by its dispatcher."""
_HEAD_BYTES = 65536
"""Bytes of one line before the state of the attempt; what a login script prints may be anything."""

_NOT_STARTED: Mapping[str, tuple[ErrorCode, str]] = {
    "no setsid": ("no_device", "the host has no program setsid; install util-linux or busybox"),
    "unwritable": ("crashed", "it was not started: ~/.asterism on the host cannot be written"),
    "unstarted": ("crashed", "it was not started: the host ran none of it within 5 s"),
}
_ENDED: Mapping[str, tuple[ErrorCode, str]] = {
    "stopped": ("cancelled", "it was stopped on the host"),
    "interrupted": ("interrupted", "its process on the host was killed, or the host was restarted; it may have done its work"),
    "missing": ("interrupted", "its folder on the host is gone; it may have done its work"),
}


class SshEntry(DeviceEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of kind ``ssh``.

    Attributes:
        host: ``host``, ``user@host`` or ``user@host:port``; a name of the user's SSH configuration works, too.
        env: environment variables of its programs.
        folder: working folder on the host, relative to the home of its user.
        jump: hosts to go through, in order; by default those of the SSH configuration.
        known_hosts: file with the host keys, relative to the fleet file; by default that of the user.
        keys: files with private keys, relative to the fleet file; by default those of the user and of the agent.
        grace_s: seconds that a lost host keeps its attempts.
        keep_s: seconds after which the folder of an attempt that has ended is removed from the host.
    """

    host: str
    commands: tuple[CommandEntry, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    folder: str = ""
    jump: tuple[str, ...] = ()
    known_hosts: str = "~/.ssh/known_hosts"
    keys: tuple[str, ...] = ()
    grace_s: Annotated[float, Meta(ge=0)] = 60.0
    keep_s: Annotated[float, Meta(ge=3600)] = 7 * 86400.0


class SshDevice:
    """A device whose programs run on a host. ``stop`` ends an attempt; cancelling ``perform`` lets it go."""

    def __init__(self, entry: SshEntry, host: Host) -> None:
        self._profile = entry.profile(
            skills=tuple(command_skill(command) for command in entry.commands), reattach=True, grace_s=entry.grace_s, file_bytes=0
        )
        self._entry = entry
        self._commands = {command.name: command for command in entry.commands}
        self._host = host
        self._reported: dict[str, float] = {}

    @property
    def profile(self) -> AgentProfile:
        return self._profile

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        command = self._commands.get(attempt.skill)
        if command is None:
            message = f"device {self._entry.id} has no skill {attempt.skill!r}; it has {', '.join(self._commands) or 'none'}"
            return _failed("no_device", message)
        bound = asyncio.timeout(command.timeout_s)
        try:
            async with bound:
                return await self._performed(command, attempt, signs)
        except AttemptError as error:
            return _failed(error.code, error.message)
        except TimeoutError:
            if not bound.expired():
                raise
            message = f"{attempt.skill} took longer than its timeout_s in the fleet file, {command.timeout_s:g} s"
            left = await self.stop(attempt)
            return _failed("timeout", f"{message}; {left}" if left else message)

    async def stop(self, attempt: Attempt) -> str:
        answer = _Answer(lambda *_: None)
        try:
            async with asyncio.timeout(STOP_S):
                await self._host.run(stop_script(attempt.key), answer.stdout, answer.stderr)
        except HostError as error:
            return f"{attempt.skill} may still run: {error}"
        except TimeoutError:
            return f"{attempt.skill} may still run on {self._host}, which did not stop it within {STOP_S:g} s"
        if answer.state.startswith("runs "):
            return f"{attempt.skill} still runs on {self._host}, as process group {answer.state[5:]}"
        return "" if answer.state == "stopped" else f"{attempt.skill} may still start on {self._host}: ~/.asterism cannot be written"

    async def watch(self, notices: Notices) -> None:
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                await self._host.connect()
                notices.found()
                wait_s = _FIRST_WAIT_S
                await self._host.run(aged_script(self._entry.keep_s), lambda _: True, lambda _: True)
                await self._host.wait_lost()
                notices.lost(f"the connection to {self._host} was lost")
            except HostError as error:
                notices.lost(str(error))
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LAST_WAIT_S)

    async def _performed(self, command: CommandEntry, attempt: Attempt, signs: Signs) -> AttemptResult:
        """Start the attempt, or find it again, and return its end. Raises AttemptError."""
        job = CommandJob(command.argv, command.output)
        folders = ("" if self._entry.folder == "~" else self._entry.folder.removeprefix("~/"), attempt.task_folder)
        argv = filled(command.argv, attempt.arguments)
        script = command_script(attempt.key, argv, {**self._entry.env, **attempt.env}, folders, RESULT_BYTES)
        try:
            await self._host.connect()
        except HostError as error:
            raise _unreached(error, may_run=attempt.again) from error
        await signs.begun()
        answer = _Answer(signs.progress, known=bool(attempt.handle))
        async with asyncio.TaskGroup() as group:
            attaching = group.create_task(_attached(answer, attempt, signs))
            failure = await self._followed(attempt, script, answer)
            if not answer.started.is_set():
                attaching.cancel()
        answer.end()
        if failure is not None:
            raise failure
        if answer.state in _NOT_STARTED:
            raise AttemptError(*_NOT_STARTED[answer.state])
        if answer.state != "stopped":  # a late start must still find that it was stopped
            self._reported[attempt.key] = asyncio.get_running_loop().time()
        if answer.state in _ENDED:
            raise AttemptError(*_ENDED[answer.state])
        if answer.state == "full":
            raise too_large(RESULT_BYTES)
        return AttemptResult(result=outcome(job, bytes(answer.output), answer.errors, int(answer.state)))

    async def _followed(self, attempt: Attempt, script: str, answer: _Answer) -> AttemptError | None:
        """Follow the attempt up to its state, over lost connections; return why that is not possible."""
        drops, key = 0, attempt.key
        while True:  # bounded by the number of lost connections
            clean = self._durable()
            following = answer.started.is_set() or answer.known
            answer.begin()
            try:
                await self._host.run(
                    follow_script(key, answer.seen, clean) if following else start_script(key, script, clean), answer.stdout, answer.stderr
                )
            except HostError as error:
                drops += 1
                if len(answer.output) > RESULT_BYTES + 1:
                    return too_large(RESULT_BYTES)
                if error.kind == "refused" or drops > _MOST_DROPS:
                    return _unreached(error, may_run=attempt.again or drops > 1)
                continue
            for each in clean:
                self._reported.pop(each, None)
            if answer.state == "continue" and not following:
                continue
            if answer.state.isdecimal() or answer.state in {"full", *_NOT_STARTED, *_ENDED}:
                return None
            return AttemptError("no_device", f"{self._host} answered without the state of the attempt: is its /bin/sh a POSIX shell?")

    def _durable(self) -> list[str]:
        """Return the attempts whose folders can go."""
        before = asyncio.get_running_loop().time() - DURABLE_S
        return [key for key, at in self._reported.items() if at < before][:100]


class _Answer:
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
                if self.state.isdecimal() or self.state in {"full", *_ENDED}:
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


async def _attached(answer: _Answer, attempt: Attempt, signs: Signs) -> None:
    await answer.started.wait()
    await signs.attached(attempt.handle or f"~/.asterism/{folder_of(attempt.key)}")


def _failed(code: ErrorCode, message: str) -> AttemptResult:
    return AttemptResult(error=TaskError(code=code, message=message))


def _unreached(error: HostError, *, may_run: bool) -> AttemptError:
    """Return the error of an attempt on a host that cannot be used; what may run there is lost with its device, and stopped later."""
    return AttemptError("device_lost" if may_run or error.kind == "lost" else "no_device", str(error))


def ssh_kind(closing: contextlib.AsyncExitStack) -> DeviceKind:
    """Return the kind ``ssh``, whose connections ``closing`` closes."""

    async def opened(entry: SshEntry, folder: Path) -> SshDevice:
        if not is_installed():
            raise MissingExtra("ssh", f"device {entry.id}, of kind ssh,")
        device = SshDevice(entry, host := Host(_settings(entry, folder)))
        closing.push_async_callback(host.close)
        return device

    return DeviceKind(SshEntry, opened)


def _settings(entry: SshEntry, folder: Path) -> HostSettings:
    """Check a table. Raises InvalidInput that begins with the key."""
    check_process(entry.env, entry.folder, "")
    for index, command in enumerate(entry.commands):
        key = f"commands[{index}]"
        check_argv(command, key)
        if command.files or command.output == "file":
            raise InvalidInput(f'{key}: a program on another host takes and returns no files; remove files, file and output = "file"')
        if command.argv[0].startswith("-"):
            raise InvalidInput(f"{key}.argv[0]: {command.argv[0]!r} is an option and not a program")
        if command.name in (other.name for other in entry.commands[:index]):
            raise InvalidInput(f"{key}.name: this device has another skill {command.name!r}")
    return HostSettings(
        address=Address.read(entry.host, "host"),
        jump=tuple(Address.read(hop, f"jump[{index}]") for index, hop in enumerate(entry.jump)),
        known_hosts=folder / Path(entry.known_hosts).expanduser(),
        keys=tuple(folder / Path(key).expanduser() for key in entry.keys),
    )
