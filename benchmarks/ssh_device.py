"""What tasks and files cost on a host over SSH, beside asyncssh with the same command over one connection, and beside ``sftp``."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import itertools
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import asyncssh

from asterism.devices.port import Attempt
from benchmarks.device_runs import chain, run_s
from tests.support.attempt_files import TestFiles
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet
from tests.support.openssh_server import OpensshServer, find_sshd, openssh_server

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


LINK = """[[devices.commands]]
name = "link"
argv = ["ln", "{source}", "{output}"]
files = ["source"]
output = "file"
file = "same.bin"
"""
"""A program that takes a file and returns it, and costs nothing."""


async def _files_s(mib: int, rounds: int) -> tuple[float, float]:
    """Return the seconds to send a file to a host and to receive it again, with ``sftp`` and on a device: medians of alternate rounds."""
    plain, durable = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with openssh_server(folder / "server") as server, contextlib.AsyncExitStack() as stack:
            (server.folder / "fleet.toml").write_text(server.table("host") + LINK, encoding="utf-8")
            device = (await stack.enter_async_context(open_fleet(server.folder / "fleet.toml")))["host"]
            files, block = TestFiles(folder), os.urandom(1 << 20)
            value = await files.put("source.bin", *itertools.repeat(block, mib))
            source = folder / "contents" / value["$file"].removeprefix("sha256:")
            for number in range(rounds):
                plain.append(await asyncio.to_thread(_sftp_s, server, source))
                attempt = Attempt(key=f"r:{number}.0", run_id="r", task_id="t", device_id="host", skill="link", arguments={"source": value})
                started = time.perf_counter()
                with files.current():
                    end = await device.perform(attempt, Heard())
                durable.append(time.perf_counter() - started)
                if end.error or end.result["$file"] != value["$file"]:
                    raise RuntimeError(f"the file has not arrived: {end}")
                shutil.rmtree(server.home / ".asterism")
    return statistics.median(plain), statistics.median(durable)


def _sftp_s(server: OpensshServer, source: Path) -> float:
    """Return the seconds in which ``sftp`` sends a file to a host and receives it again."""
    copy, back = server.home / "copy", server.folder / "back"
    options = ("-i", server.folder / "id", "-o", f"UserKnownHostsFile={server.folder / 'known_hosts'}", "-P", str(server.port))
    started = time.perf_counter()
    subprocess.run(
        ["sftp", "-q", "-b", "-", *options, f"{getpass.getuser()}@127.0.0.1"],
        input=f"put {source} {copy}\nget {copy} {back}\n".encode(),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    taken_s = time.perf_counter() - started
    copy.unlink()
    back.unlink()
    return taken_s


def _file_rows(*, quick: bool) -> list[str]:
    """Row of the table for files; none without the program ``sftp``."""
    if shutil.which("sftp") is None:
        return []
    mib = 256 if quick else 1024
    plain, durable = asyncio.run(_files_s(mib, 1 if quick else 3))
    row = f"| a file of {mib:,} MiB to a host over SSH and back, with its digest | {durable:.1f} s, "
    return [f"{row}{durable / plain:.2f} times plain sftp ({plain:.1f} s) |"]


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
    return [*found, *_file_rows(quick=quick)]
