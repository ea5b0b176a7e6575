"""What a durable task on a host over SSH costs, beside asyncssh that runs the same command over one connection."""

from __future__ import annotations

import asyncio
import getpass
import statistics
import tempfile
import time
from pathlib import Path

import asyncssh

from benchmarks.device_runs import chain, run_s
from tests.openssh_server import OpensshServer, find_sshd, openssh_server

PROGRAMS = {"nothing": ("true",), "sleep": ("sleep", "0.1")}
COMMANDS = "".join(f"[[devices.commands]]\nname = '{name}'\nargv = {list(argv)}\n" for name, argv in PROGRAMS.items())


async def _bare_s(server: OpensshServer, skill: str, length: int) -> float:
    """Return the seconds of so many commands with asyncssh, one after the other over one connection, with its opening."""
    files = {"client_keys": [str(server.folder / "id")], "known_hosts": str(server.folder / "known_hosts"), "config": None}
    started = time.perf_counter()
    async with asyncssh.connect("127.0.0.1", server.port, username=getpass.getuser(), **files) as connection:
        for _ in range(length):
            await connection.run(" ".join(PROGRAMS[skill]), check=True)
        return time.perf_counter() - started


async def _durable_s(server: OpensshServer, skill: str, length: int) -> float:
    """Return the seconds of a chain of so many tasks, with the opening of the connection."""
    fleet_file = server.folder / "fleet.toml"
    fleet_file.write_text(server.table("host") + COMMANDS, encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        return await run_s(chain(length, device="host", skill=skill), fleet_file, Path(folder, "runs.db"))


async def _measured(skill: str, length: int, rounds: int) -> tuple[float, float]:
    """Return the seconds of one task, with asyncssh and on a device: medians of alternate rounds."""
    bare, durable = [], []
    with tempfile.TemporaryDirectory() as folder:
        async with openssh_server(Path(folder)) as server:
            for _ in range(rounds):
                bare.append(await _bare_s(server, skill, length) / length)
                durable.append(await _durable_s(server, skill, length) / length)
    return statistics.median(bare), statistics.median(durable)


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures; none without an OpenSSH server."""
    if find_sshd() is None:
        return []
    found = []
    for skill, what in (("nothing", "that does nothing"), ("sleep", "that takes 100 ms")):
        bare, durable = asyncio.run(_measured(skill, 5 if quick else 50, 1 if quick else 5))
        found.append(
            f"| a task of a durable chain over SSH, with a program {what} | {1000 * durable:.1f} ms, "
            f"{durable / bare:.2f} times asyncssh with the same command ({1000 * bare:.1f} ms) |"
        )
    return found
