"""An SSH server of a test, in its process: real connections, a real shell, and a home of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh

LOGIN = "echo 'a login script prints this'; echo and this >&2;"


class SshServer:
    """The server. ``port`` and ``known_hosts`` are for clients; ``home`` is the home of its user.

    Attributes:
        connections: the connections that clients have opened.
        cuts: number of times that they were cut.
        cut_after: bytes of stdout after which the connections are cut, once.
        shell: the shell of the host, in place of ``/bin/sh``.
        sftp: serves SFTP; None for a host without it.
        shells: the login shells of all sessions, also of those that have ended.
        transfer_cut: bytes that are read or written by SFTP before the connections are cut, once.
    """

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.known_hosts = folder / "known_hosts"
        self.key = folder / "id"
        self.port = 0
        self.connections: list[asyncssh.SSHServerConnection] = []
        self.cut_after: int | None = None
        self.cuts = 0
        self.shell = "/bin/sh"
        self.sftp: type[SftpServer] | None = SftpServer
        self.transfer_cut: int | None = None
        self._client = asyncssh.generate_private_key("ssh-ed25519")
        self._client.write_private_key(self.key)
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._folder = folder
        self.shells: list[asyncio.subprocess.Process] = []

    async def start(self, *, trusted: bool = True) -> None:
        """Listen, with a new host key."""
        host_key = asyncssh.generate_private_key("ssh-ed25519")
        authorized = self._folder / "authorized"
        authorized.write_bytes(self._client.export_public_key())
        self._acceptor = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_host_keys=[host_key],
            authorized_client_keys=str(authorized),
            process_factory=self._serve,
            server_factory=lambda: _Login(self),
            encoding=None,
            sftp_factory=(lambda channel: self.sftp(channel, self)) if self.sftp else None,
            allow_scp=False,
        )
        self.port = self._acceptor.get_port()
        if trusted:
            self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {host_key.export_public_key().decode()}")

    async def stop(self) -> None:
        """Stop listening, and cut all connections."""
        if self._acceptor:
            self._acceptor.close()
            await self._acceptor.wait_closed()
        self.cut()
        for child in [child for child in self.shells if child.returncode is None]:  # each waits for a script, or for the end of an attempt
            with contextlib.suppress(ProcessLookupError):
                child._transport.close()  # type: ignore[attr-defined]
            await child.wait()

    def cut(self) -> None:
        """Cut all connections."""
        self.cuts += 1
        for connection in self.connections:
            connection.abort()
        self.connections.clear()

    @property
    def starts(self) -> list[str]:
        """Return what the programs have written to the file ``starts``, one line per start."""
        file = self.home / "starts"
        return file.read_text().splitlines() if file.exists() else []

    def table(self) -> str:
        """Return the head of the table of a device ``d``, for a fleet file in the folder of the server."""
        return f'[[devices]]\nid = "d"\nkind = "ssh"\nhost = "127.0.0.1:{self.port}"\nknown_hosts = "known_hosts"\nkeys = ["id"]\n'

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        child = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            f"{LOGIN} {process.command}".replace("/bin/sh", self.shell),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"]},
            start_new_session=True,
        )
        self.shells.append(child)
        try:
            with contextlib.suppress(asyncssh.Error, OSError):
                async with asyncio.TaskGroup() as group:
                    group.create_task(_feed(process, child, self.shell))
                    group.create_task(self._pump(child.stdout, process.stdout, bounded=True))
                    group.create_task(self._pump(child.stderr, process.stderr))
                process.exit(await child.wait())
        finally:
            with contextlib.suppress(ProcessLookupError):
                child._transport.close()  # type: ignore[attr-defined]

    async def _pump(self, source: asyncio.StreamReader | None, sink: asyncssh.SSHWriter[bytes], *, bounded: bool = False) -> None:
        assert source is not None
        with contextlib.suppress(asyncssh.Error, OSError):
            while chunk := await source.read(4096):
                sink.write(chunk)
                await sink.drain()
                if bounded and self.cut_after is not None:
                    self.cut_after -= len(chunk)
                    if self.cut_after < 0:
                        self.cut_after = None
                        self.cut()


class SftpServer(asyncssh.SFTPServer):
    """The files of the host, by SFTP."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], server: SshServer) -> None:
        super().__init__(channel)
        self._server = server

    def read(self, file_obj: object, offset: int, size: int) -> bytes:
        data = super().read(file_obj, offset, size)
        assert isinstance(data, bytes)
        self._transferred(len(data))
        return data

    def write(self, file_obj: object, offset: int, data: bytes) -> int:
        written = super().write(file_obj, offset, data)
        assert isinstance(written, int)
        self._transferred(written)
        return written

    def _transferred(self, size: int) -> None:
        if self._server.transfer_cut is not None:
            self._server.transfer_cut -= size
            if self._server.transfer_cut < 0:
                self._server.transfer_cut = None
                self._server.cut()


class _Login(asyncssh.SSHServer):
    def __init__(self, server: SshServer) -> None:
        self._server = server

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._server.connections.append(conn)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return True


async def _feed(process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process, shell: str) -> None:
    assert child.stdin is not None
    with contextlib.suppress(asyncssh.Error, OSError):
        while chunk := await process.stdin.read(65536):
            child.stdin.write(chunk.replace(b"/bin/sh", shell.encode()))
            await child.stdin.drain()
        child.stdin.close()


@contextlib.asynccontextmanager
async def ssh_server(folder: Path) -> AsyncIterator[SshServer]:
    """Serve during the block."""
    server = SshServer(folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
