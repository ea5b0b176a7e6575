"""A shell on a host, which runs one script after the other.

The login, the shell of the user and its login scripts cost a host several milliseconds, and so does
the start of a shell. A shell that stays needs them once.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from asterism.devices.kinds.ssh.script import session_script
from asterism.devices.port import Unreachable
from asterism.engine.kernel.data import one_line

if TYPE_CHECKING:
    import asyncssh

COMMAND = "exec /bin/sh"
QUICK_S = 0.3
"""Seconds for which a script may be silent: a program that ends in that time costs the host no process that watches it."""
LOGIN_BYTES = 1 << 20
"""Bytes that the login scripts of a user may print on one stream."""
LOGIN_S = 30.0
CLOSE_S = 10.0
"""Seconds for which a host may take to close a session whose streams have ended; it counts as lost after them."""
MAX_MESSAGE_CHARS = 1000

_CHUNK_BYTES = 65536

Sink = Callable[[bytes], bool]
"""Takes a piece of output; returns False to end the script's streams."""


class HostError(Unreachable):
    """The host cannot be used, in one line.

    ``lost``: it cannot be reached now. ``refused``: a person has to change something.
    """

    def __init__(self, kind: Literal["lost", "refused"], message: str) -> None:
        super().__init__(one_line(message, MAX_MESSAGE_CHARS))
        self.kind = kind


class Shell:
    """A shell on a host.

    Args:
        host: name of the host, for errors.
        process: its process, as the library has it.
        lost: errors that the library raises where a connection is lost.
    """

    def __init__(self, host: str, process: asyncssh.SSHClientProcess[bytes], lost: tuple[type[Exception], ...]) -> None:
        self._host = host
        self._process = process
        self._lost = lost
        self._token = secrets.token_hex(16)
        self._end = b"\x1e" + self._token.encode() + b"\n"
        self._is_ready = False

    @property
    def is_open(self) -> bool:
        """Return True if it can run another script."""
        return self._is_ready and not self._process.is_closing()

    async def run(self, script: str, stdout: Sink, stderr: Sink) -> bool:
        """Run a script, and pass on its output as it comes, to the end of the script or of the shell.

        Return True if the shell can run another one. Raises HostError.
        """
        if not self._is_ready:
            self._is_ready = await self._log_in()
        if self._is_ready and await self._run(script, stdout, stderr):
            return self.is_open
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._process.wait_closed()
        status = self._process.exit_status
        if status is None:
            raise HostError("lost", f"the connection to {self._host} was lost")
        if status and self._is_ready:
            raise HostError("lost", f"{self._host} has ended its /bin/sh: exit status {status}")
        if status:
            raise HostError("refused", f"{self._host} does not run /bin/sh: exit status {status}")
        return False

    def close(self) -> None:
        """Close its streams; what it has started goes on."""
        self._process.close()

    async def _log_in(self) -> bool:
        """Wait until the shell takes scripts; return False if it has ended. Raises HostError."""
        printed = {"stdout": 0, "stderr": 0}

        def counted(stream: str) -> Sink:
            def take(chunk: bytes) -> bool:
                printed[stream] += len(chunk)
                return printed[stream] <= LOGIN_BYTES

            return take

        try:
            async with asyncio.timeout(LOGIN_S):
                is_ready = await self._run(session_script(self._token), counted("stdout"), counted("stderr"))
        except TimeoutError:
            raise HostError("refused", f"{self._host} has not started /bin/sh within {LOGIN_S:g} s: does a login script wait?") from None
        if max(printed.values()) > LOGIN_BYTES:
            message = f"{self._host} prints more than {LOGIN_BYTES:,} bytes before it starts /bin/sh: see the login scripts of its user"
            raise HostError("refused", message)
        return is_ready

    async def _run(self, script: str, stdout: Sink, stderr: Sink) -> bool:
        """Run a script; return False if the shell has ended."""
        loop = asyncio.get_running_loop()
        nudges = [loop.call_later(QUICK_S, self._write, b"\n")]

        def begun(chunk: bytes) -> bool:
            if len(nudges) == 1:  # a shell may have taken the first one for a part of its script, if both arrived together
                nudges.append(loop.call_later(QUICK_S, self._write, b"\n"))
            return stdout(chunk)

        self._write(script.encode())
        try:
            async with asyncio.TaskGroup() as group:
                out = group.create_task(self._pump(self._process.stdout, begun))
                err = group.create_task(self._pump(self._process.stderr, stderr))
        finally:
            for nudge in nudges:
                nudge.cancel()
        return out.result() and err.result()

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # it has ended; its exit status says how
            self._process.stdin.write(data)

    async def _pump(self, stream: asyncssh.SSHReader[bytes], sink: Sink) -> bool:
        """Pass on a stream; return True at the end of the script, and False at that of the shell."""
        held = b""
        with contextlib.suppress(*self._lost):
            while chunk := await stream.read(_CHUNK_BYTES):
                held += chunk
                given, found, _ = held.partition(self._end)
                if not found:  # the end may have arrived in part
                    begin = held.rfind(self._end[:1], -len(self._end))
                    given, held = (held[:begin], held[begin:]) if begin >= 0 else (held, b"")
                if given and not sink(given):
                    self._process.close()
                    return False
                if found:
                    return True
        return False
