"""What an attempt on a device of the kind ``mcp`` costs, beside the bare client of the SDK that calls the same tool."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

from mcp import Client, StdioServerParameters

from asterism.devices.fleet.fleet_file import FleetContext
from asterism.devices.kinds.mcp.kind import MCP
from asterism.devices.kinds.mcp.server import McpEntry
from asterism.devices.port import Attempt, Device
from asterism.devices.workers.pool import WorkerPool

SERVER = """
import asyncio
import sys
from mcp.server import MCPServer

server = MCPServer("bench", version="1")

@server.tool()
def nothing() -> dict[str, int]:
    return {"n": 1}

@server.tool()
async def nap(seconds: float) -> dict[str, int]:
    await asyncio.sleep(seconds)
    return {"n": 1}

server.run("streamable-http", port=int(sys.argv[1])) if sys.argv[1:] else server.run("stdio")
"""
CALLS = 25
"""Calls of one turn."""
START_S = 30.0


class _Signs:
    """Takes what an attempt reports."""

    place = None

    def progress(self, fraction: float | None = None, message: str = "") -> None:
        pass

    def queued(self, reason: str = "") -> None:
        pass

    async def begun(self) -> None:
        pass

    def attached(self, handle: str) -> Awaitable[None]:
        return asyncio.sleep(0)


@contextlib.contextmanager
def served(program: Path) -> Iterator[str]:
    """Serve a program over HTTP during the block; yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(program), str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@contextlib.asynccontextmanager
async def _both(folder: Path, program: Path, url: str) -> AsyncIterator[tuple[Device, Client]]:
    """Open the device and the bare client, each on a connection of its own."""
    command = () if url else (sys.executable, str(program))
    bare = Client(url or StdioServerParameters(command=sys.executable, args=[str(program)]))
    context = FleetContext(folder, folder / "runs.db", lambda: WorkerPool(folder / "ledger"))
    async with MCP.open(McpEntry(id="d", kind="mcp", command=command, url=url), context) as device, bare as client:
        yield device, client


async def _turns(repeats: int, url: str, folder: Path, program: Path) -> tuple[float, float, float]:
    """Return the medians of a call by the device and by the client, in seconds, and of how many times as long the first takes."""
    attempt = Attempt(key="r:1.0", run_id="r", task_id="t", device_id="d", skill="nothing")
    async with _both(folder, program, url) as (device, client):
        sides: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: device.perform(attempt, _Signs()),
            lambda: client.call_tool("nothing", {}),
        )
        taken: list[list[float]] = [[], []]
        for turn in range(repeats + 1):
            for side, call in zip(taken, sides, strict=True):
                began = time.perf_counter()
                for _ in range(CALLS):
                    await call()
                if turn:  # the first one warms up
                    side.append((time.perf_counter() - began) / CALLS)
    ours, theirs = taken
    return statistics.median(ours), statistics.median(theirs), statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def rows(*, quick: bool) -> Iterator[str]:
    """Rows of the table of figures."""
    repeats = 1 if quick else 20
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "server.py"
        program.write_text(SERVER, encoding="utf-8")
        with served(program) as url:
            for how, address in (("stdio", ""), ("HTTP", url)):
                ours, theirs, times = asyncio.run(_turns(repeats, address, folder, program))
                yield (
                    f"| (a) a call of an MCP tool over {how}, by a device | {ours * 1000:.2f} ms; "
                    f"the bare client: {theirs * 1000:.2f} ms, {times:.2f} times |"
                )
