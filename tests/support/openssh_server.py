"""A real OpenSSH server of a test, as an ordinary user on a free port of this computer."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

CONFIGURATION = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile {folder}/pid
AuthorizedKeysFile {folder}/id.pub
SetEnv HOME={folder}/home
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
"""


def find_sshd() -> str | None:
    """Return the path of ``sshd``, which is often in no folder of an ordinary user's PATH."""
    return shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")


def processes() -> list[tuple[int, int, int]]:
    """Return pid, parent and group of every process but zombies."""
    command = ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="]
    lines = [line.split() for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()]
    return [(int(pid), int(parent), int(group)) for pid, parent, group, state in lines if not state.startswith("Z")]


class OpensshServer:
    """The server, and what a client needs: the files ``id`` and ``known_hosts`` in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.port = 0
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Listen on the port of the first start, with the same host key."""
        if not self.port:
            self.home.mkdir(parents=True)
            for name in ("host", "id"):
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)  # noqa: ASYNC221
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
            (self.folder / "sshd_config").write_text(CONFIGURATION.format(port=self.port, folder=self.folder))
            (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {(self.folder / 'host.pub').read_text()}")
            if os.getuid() == 0:
                Path("/run/sshd").mkdir(exist_ok=True)  # noqa: ASYNC240 - only as root does it need it
        program = find_sshd()
        assert program
        with (self.folder / "log").open("ab") as log:
            command = (program, "-D", "-e", "-f", str(self.folder / "sshd_config"))
            self._process = await asyncio.create_subprocess_exec(*command, stderr=log)
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            assert self._process.returncode is None, (self.folder / "log").read_text()
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop listening, and cut all connections; what runs in a session of its own goes on."""
        if self._process and self._process.returncode is None:
            children = [pid for pid, parent, _ in processes() if parent == self._process.pid]
            self._process.kill()
            await self._process.wait()
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def table(self, device_id: str) -> str:
        """Return the head of its table in a fleet file in its folder."""
        return (
            f'[[devices]]\nid = "{device_id}"\nkind = "ssh"\nhost = "{getpass.getuser()}@127.0.0.1:{self.port}"\n'
            'known_hosts = "known_hosts"\nkeys = ["id"]\n'
        )


@contextlib.asynccontextmanager
async def openssh_server(folder: Path) -> AsyncIterator[OpensshServer]:
    """Serve during the block."""
    server = OpensshServer(folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
