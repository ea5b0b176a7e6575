"""Fleet kind ``ssh``: programs on another computer, over SSH.

An attempt runs on the host, in a session and a folder of its own (``script``), and goes on
without a connection. So it is found again by its key: after a lost connection, after a crash of
this process, and from another computer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from asterism.devices.attempts.attempt_files import CURRENT
from asterism.devices.attempts.secrets import secret
from asterism.devices.attempts.worker_protocol import CommandJob
from asterism.devices.fleet.fleet_file import DeviceEntry, DeviceKind, FleetContext
from asterism.devices.kinds.local import CommandEntry, check_argv, command_skill, in_time, secret_in_argv
from asterism.devices.kinds.remote import ConnectedDevice, secret_names
from asterism.devices.kinds.ssh.answer import ENDED, NOT_STARTED, HostAnswer
from asterism.devices.kinds.ssh.connection import Address, Host, HostSettings, is_installed
from asterism.devices.kinds.ssh.script import (
    aged_script,
    command_script,
    folder_of,
    follow_script,
    home_script,
    is_exit_code,
    start_script,
    stop_script,
    whole_script,
)
from asterism.devices.kinds.ssh.shell import HostError
from asterism.devices.kinds.ssh.transfer import OUT_FOLDER, push, stored, with_paths
from asterism.devices.model.environment import check_process
from asterism.devices.model.references import with_secrets
from asterism.devices.port import Attempt, AttemptError, AttemptResult, Notices, Signs
from asterism.devices.skills.command import filled, outcome, too_large
from asterism.devices.workers.pool import RESULT_BYTES
from asterism.engine.kernel.data import files_in, one_line
from asterism.errors import InvalidInput, MissingExtra

DURABLE_S = 60.0
"""Seconds after which a reported result counts as written to the journal, so that its folder can go."""
STOP_S = 15.0

_MOST_DROPS = 10
"""Lost connections that one attempt survives without being performed again by its dispatcher."""
_SYSTEM = whole_script("echo; echo 'asterism: system'; uname -sm; command -v setsid >/dev/null || echo 'no setsid'")
_SYSTEM_BYTES, _SYSTEM_CHARS = 65536, 200


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


class SshDevice(ConnectedDevice):
    """A device whose programs run on a host. ``stop`` ends an attempt; cancelling ``perform`` lets it go."""

    def __init__(self, entry: SshEntry, host: Host) -> None:
        skills = tuple(command_skill(command) for command in entry.commands)
        super().__init__(entry.profile(skills=skills, reattach=True, grace_s=entry.grace_s))
        self._entry = entry
        self.secret_names = secret_names(entry.env.values())
        self._commands = {command.name: command for command in entry.commands}
        self._host = host
        self._home = ""
        self._reported: dict[str, float] = {}

    async def carry_out(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        if (command := self._commands.get(attempt.skill)) is None:
            raise self.lacks(attempt.skill)
        try:
            async with in_time(attempt.skill, command.timeout_s):
                return await self._performed(command, attempt, signs)
        except AttemptError as error:
            if error.code == "timeout" and (left := await self.stop(attempt)):
                raise AttemptError("timeout", f"{error.message}; {left}") from error
            raise

    async def stop(self, attempt: Attempt) -> str:
        answer = HostAnswer(lambda *_: None)
        try:
            async with asyncio.timeout(STOP_S):
                await self._host.run(stop_script(attempt.key), answer.stdout, answer.stderr)
        except HostError as error:
            return f"{attempt.skill} may still run: {error}"
        except TimeoutError:
            return f"{attempt.skill} may still run on {self._host}, which did not stop it within {STOP_S:g} s"
        if answer.state.startswith("runs "):
            return f"{attempt.skill} still runs on {self._host}, as process group {one_line(answer.state[5:], 40)}"
        return "" if answer.state == "stopped" else f"{attempt.skill} may still start on {self._host}: ~/.asterism cannot be written"

    async def connect(self) -> None:
        await self._host.connect()

    async def watch(self, notices: Notices) -> None:
        await self.connect()
        notices.found()
        await self._host.run(aged_script(self._entry.keep_s), lambda _: True, lambda _: True)
        await self._host.wait_lost()
        raise HostError("lost", f"the connection to {self._host} was lost")

    async def system(self) -> str:
        output = bytearray()

        def take(chunk: bytes) -> bool:
            output.extend(chunk)
            return len(output) < _SYSTEM_BYTES

        await self._host.run(_SYSTEM, take, lambda _: True)
        system = one_line(output.decode(errors="replace").rpartition("asterism: system")[2], _SYSTEM_CHARS)
        if system.endswith("no setsid"):
            raise HostError("refused", "the host has no program setsid; install util-linux or busybox")
        if not system:
            raise HostError("refused", "it does not run /bin/sh")
        return system

    async def _performed(self, command: CommandEntry, attempt: Attempt, signs: Signs) -> AttemptResult:
        """Start the attempt, or find it again, and return its end. Raises AttemptError."""
        if attempt.secrets:
            raise AttemptError("bad_arguments", secret_in_argv(attempt))
        given = list(files_in(attempt.arguments))
        try:
            await self._host.connect()
            folder = await self._folder(attempt.key) if given or command.output == "file" else ""
            argv = filled(command.argv, with_paths(attempt.arguments, folder, command.file if command.output == "file" else ""))
            if given and not attempt.handle:
                await self._push(folder, given)
        except HostError as error:
            raise _unreached(error, may_run=attempt.again) from error
        own = {name: with_secrets(value, secret) for name, value in self._entry.env.items()}
        folders = ("" if self._entry.folder == "~" else self._entry.folder.removeprefix("~/"), attempt.task_folder)
        script = command_script(argv, {**own, **attempt.env}, folders, RESULT_BYTES, makes_file=command.output == "file")
        await signs.begun()
        answer = HostAnswer(signs.progress, known=bool(attempt.handle))
        async with asyncio.TaskGroup() as group:
            attaching = group.create_task(_attached(answer, attempt, signs))
            failure = await self._followed(attempt, script, answer)
            if not answer.started.is_set():
                attaching.cancel()
        answer.end()
        if failure is not None:
            raise failure
        if answer.state in NOT_STARTED:
            raise AttemptError(*NOT_STARTED[answer.state])
        if answer.state != "stopped":  # a late start must still find that it was stopped
            self._reported[attempt.key] = asyncio.get_running_loop().time()
        if answer.state in ENDED:
            raise AttemptError(*ENDED[answer.state])
        if answer.state == "full" or len(answer.output) > RESULT_BYTES:  # it may end as it writes the last byte
            raise too_large(RESULT_BYTES)
        job = CommandJob(command.argv, command.output, returns=command.returns)
        result = outcome(job, bytes(answer.output), answer.errors, int(answer.state))
        return AttemptResult(result=await self._pulled(attempt.key, folder, command.file) if command.output == "file" else result)

    async def _folder(self, key: str) -> str:
        """Return the path of the folder of an attempt on the host. Raises HostError."""
        if not self._home:
            answer = HostAnswer(lambda *_: None)
            await self._host.run(home_script(), answer.stdout, answer.stderr)
            if not answer.state.startswith("home /"):
                raise HostError("refused", f"{self._host} answered without the path of its home: is its /bin/sh a POSIX shell?")
            self._home = answer.state.removeprefix("home ")
        return f"{self._home}/{folder_of(key)}"

    async def _push(self, folder: str, given: list[dict[str, Any]]) -> None:
        """Write the files of an attempt into its folder on the host. Raises HostError, and AttemptError ``bad_arguments``."""
        if (files := CURRENT.get()) is None:
            raise AttemptError("bad_arguments", "an argument is a file, and this program has no store for files")
        try:
            await push(self._host, folder, given, files)
        except InvalidInput as error:
            raise AttemptError("bad_arguments", str(error)) from error

    async def _pulled(self, key: str, folder: str, name: str) -> dict[str, Any]:
        """Store the file that a program has written; return the value that names it. Raises AttemptError."""
        del self._reported[key]  # the folder must stay meanwhile
        try:
            value = await stored(self._host, f"{folder}/{OUT_FOLDER}/{name}", name, CURRENT.get())
        except HostError as error:
            raise _unreached(error, may_run=True) from error
        self._reported[key] = asyncio.get_running_loop().time()
        return value

    async def _followed(self, attempt: Attempt, script: str, answer: HostAnswer) -> AttemptError | None:
        """Follow the attempt up to its state, over lost connections; return why that is not possible."""
        drops, key = 0, attempt.key
        while True:  # bounded by ``drops``
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
            if is_exit_code(answer.state) or answer.state in {"full", *NOT_STARTED, *ENDED}:
                return None
            odd = HostError("refused", f"{self._host} answered without the state of the attempt: is its /bin/sh a POSIX shell?")
            return _unreached(odd, may_run=attempt.again or answer.started.is_set())

    def _durable(self) -> list[str]:
        """Return the attempts whose folders can go."""
        before = asyncio.get_running_loop().time() - DURABLE_S
        return [key for key, at in self._reported.items() if at < before][:100]


async def _attached(answer: HostAnswer, attempt: Attempt, signs: Signs) -> None:
    await answer.started.wait()
    await signs.attached(attempt.handle or f"~/.asterism/{folder_of(attempt.key)}")


def _unreached(error: HostError, *, may_run: bool) -> AttemptError:
    """Return the error of an attempt on a host that cannot be used; what may run there is lost with its device, and stopped later."""
    return AttemptError("device_lost" if may_run or error.kind == "lost" else "no_device", str(error))


@contextlib.asynccontextmanager
async def _open(entry: SshEntry, context: FleetContext) -> AsyncIterator[SshDevice]:
    if not is_installed():
        raise MissingExtra("ssh", f"device {entry.id}, of kind ssh,")
    host = Host(_settings(entry, context.folder))
    try:
        yield SshDevice(entry, host)
    finally:
        await host.close()


SSH = DeviceKind(SshEntry, _open, is_remote=True)
"""The device kind ``ssh``."""


def _settings(entry: SshEntry, folder: Path) -> HostSettings:
    """Check a table. Raises InvalidInput that begins with the key."""
    check_process(entry.env, entry.folder, "")
    for index, command in enumerate(entry.commands):
        key = f"commands[{index}]"
        check_argv(command, key)
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
