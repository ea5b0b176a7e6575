"""A real server on the devices of ``examples.remote`` and some local ones, which is killed, stopped, frozen and started again."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import asterism
from asterism.errors import InvalidInput, StoreUnavailable
from asterism.service.http_connection import HttpConnection
from examples.remote.servers import Servers

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
AGENTS = Path(__file__).with_name("mixed_agents.py")
SKILLS = ("prepare", "deploy", "attach", "measure", "fail", "hold")
MORE_FLEET = """
[[devices]]
id = "crew"
concurrency = 6
skills = [{skills}]

[[notify]]
name = "hook"
url = "http://127.0.0.1:{hook}/hook"
signing_key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
on = ["question", "failed", "stuck"]
"""
START_S, STOP_S, GONE_S = 120.0, 120.0, 30.0


class ServedSite:
    """A folder with a database, remote devices, and the command ``asterism serve``.

    Args:
        servers: the servers of the remote devices.
        hook: port of the receiver of notifications.
    """

    def __init__(self, servers: Servers, hook: int) -> None:
        self.servers = servers
        self.folder = servers.folder
        self.database = self.folder / "runs.db"
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = free.getsockname()[1]
        more = MORE_FLEET.format(skills=", ".join(f'"{AGENTS}:{name}"' for name in SKILLS), hook=hook)
        with (self.folder / "fleet.toml").open("a", encoding="utf-8") as fleet:
            fleet.write(more)
        self.process: asyncio.subprocess.Process | None = None
        self.lives = 0
        self._serves = False

    @property
    def url(self) -> str:
        """Address of the API, the same for each server process."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """The token of this user."""
        return Path(f"{self.database}.token").read_text(encoding="ascii").strip()

    # -- the server process ------------------------------------------------------------------------

    async def spawn(self) -> asyncio.subprocess.Process:
        """Start a server process, and do not wait until it serves."""
        fleet = str(self.folder / "fleet.toml")
        argv = [sys.executable, "-m", "asterism.cli", "serve", "--fleet", fleet, "--port", str(self.port)]
        with (self.folder / "serve.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *argv, cwd=ROOT, env=self.servers.environment, stdin=subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log
            )
        self.lives += 1
        self._serves = False
        return self.process

    async def serving(self) -> asyncio.subprocess.Process:
        """Return a server process that serves; start it if there is none."""
        process = self.process or await self.spawn()
        async with asyncio.timeout(START_S):
            while not self._serves and process.stdout and (line := await process.stdout.readline()):
                self._serves = line.startswith(b"login link")
        if self._serves:
            return process
        raise RuntimeError(f"the server has not started; its log is {self.folder / 'serve.log'}")

    async def end(self, number: signal.Signals) -> int:
        """Send a signal to the server, and return its exit code."""
        process, self.process = self.process, None
        if process is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            async with asyncio.timeout(STOP_S):
                return await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            return -signal.SIGALRM

    # -- the API and the database ------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[HttpConnection]:
        """A connection to the API."""
        async with asterism.connect(self.url, token=self.token) as app:
            yield app.connection

    def ask(self, sql: str, *values: object) -> list[Any]:
        """Return rows of the database."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=30)) as database:
            return database.execute(sql, values).fetchall()

    def entries(self) -> int:
        """Return the number of entries in all journals."""
        return int(self.ask("SELECT count(*) FROM entries")[0][0])

    def submitted(self, *counts: int) -> list[tuple[str, str]]:
        """Submit loops and conversations without the API; return the kind and the id of each."""
        argv = [sys.executable, str(AGENTS), *map(str, counts)]
        done = subprocess.run(argv, cwd=ROOT, env=self.servers.environment, capture_output=True, text=True, timeout=START_S, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return [(kind, run_id) for kind, run_id in (line.split() for line in done.stdout.splitlines())]

    # -- what happened outside ---------------------------------------------------------------------

    def done(self) -> collections.Counter[tuple[str, str]]:
        """Return how often each effect was performed, by its name and key."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.folder / "done").read_text(encoding="utf-8").splitlines()
            return collections.Counter((name, key) for name, key in (line.split() for line in lines))
        return collections.Counter()

    def work(self) -> list[dict[str, Any]]:
        """Return what the devices of the example have noted."""
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in (self.folder / "work").read_text(encoding="utf-8").splitlines()]
        return []

    def received(self) -> collections.Counter[tuple[str, str]]:
        """Return how often each device has received each file, by the device and the file's digest."""
        return collections.Counter((it["device"], it["result"]) for it in self.work() if it["event"] == "file")

    async def left(self) -> list[str]:
        """Return the processes of the site, other than the servers of the devices, that have not ended after a while."""
        give_up = time.monotonic() + GONE_S
        while (alive := list(self._processes())) and time.monotonic() < give_up:  # noqa: ASYNC110 - other processes end
            await asyncio.sleep(0.2)
        return alive

    def _processes(self) -> Iterator[str]:
        mark = f"ASTERISM_REMOTE_DIR={self.folder}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if int(folder.name) not in {os.getpid(), *self.servers.pids} and mark in (folder / "environ").read_bytes().split(b"\0"):
                    yield f"{folder.name} {(folder / 'cmdline').read_bytes().replace(bytes(1), b' ').decode(errors='replace')[:120]}"


async def until_answered(work: Callable[[], Awaitable[T]]) -> T:
    """Repeat a request until the server is there and has time for it; the caller bounds the time."""
    while True:
        try:
            return await work()
        except StoreUnavailable:
            await asyncio.sleep(0.2)
        except InvalidInput as busy:
            if "in a minute" not in str(busy):
                raise
            await asyncio.sleep(1)
