"""An SSH server on asyncssh: a host whose programs run here, in a home of its own.

usage: python -m examples.remote.ssh_host PORT FOLDER
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import asyncssh

CHUNK_BYTES = 65536


def make_keys(folder: Path, port: int) -> None:
    """Write the key of the host, that of its user, and the list of known hosts."""
    for name in ("host", "id"):
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(folder / name)
    (folder / "authorized").write_bytes(asyncssh.read_private_key(folder / "id").export_public_key())
    host_key = asyncssh.read_private_key(folder / "host").export_public_key().decode()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")


async def serve(port: int, folder: Path) -> None:
    """Serve until the process is ended."""
    home = folder / "home"

    async def program(process: asyncssh.SSHServerProcess[bytes]) -> None:
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "ASTERISM_REMOTE_DIR": os.environ["ASTERISM_REMOTE_DIR"]}
        child = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            process.command or ":",
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=home,
            env=environment,
            start_new_session=True,
        )
        if child.stdin is None or child.stdout is None or child.stderr is None:
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_feed(process.stdin, child.stdin))
                group.create_task(_pump(child.stdout, process.stdout))
                group.create_task(_pump(child.stderr, process.stderr))
            process.exit(await child.wait())
        except* (asyncssh.Error, OSError):  # the client has closed this session; an error here would end its connection
            pass

    server = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[folder / "host"],
        authorized_client_keys=str(folder / "authorized"),
        process_factory=program,
        encoding=None,
        sftp_factory=True,
        allow_scp=False,
    )
    await server.wait_closed()


async def _feed(source: asyncssh.SSHReader[bytes], sink: asyncio.StreamWriter) -> None:
    try:
        while chunk := await source.read(CHUNK_BYTES):
            sink.write(chunk)
            await sink.drain()
    finally:  # also when the connection is lost: a shell that waits for more of its script ends
        sink.close()


async def _pump(source: asyncio.StreamReader, sink: asyncssh.SSHWriter[bytes]) -> None:
    while chunk := await source.read(CHUNK_BYTES):
        sink.write(chunk)
        await sink.drain()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
