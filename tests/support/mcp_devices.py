"""Devices of the kind ``mcp`` for tests, and the servers that they connect to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from asterism.devices.fleet.fleet_file import FleetContext
from asterism.devices.kinds.mcp.device import McpDevice
from asterism.devices.kinds.mcp.kind import MCP
from asterism.devices.kinds.mcp.server import McpEntry
from asterism.devices.port import Attempt
from asterism.devices.workers.pool import WorkerPool
from asterism.engine.kernel.profile import AgentProfile
from tests.support.forks import forked_script

SCRIPTED = Path(__file__).with_name("mcp_server.py")
TASKS = Path(__file__).with_name("mcp_task_server.py")
RAW = Path(__file__).with_name("mcp_raw_server.py")


@contextlib.asynccontextmanager
async def open_mcp(tmp_path: Path, **fields: Any) -> AsyncIterator[McpDevice]:
    """Open a device, by default that of the scripted server over stdio."""
    if "url" not in fields:
        fields.setdefault("command", (sys.executable, str(SCRIPTED), str(tmp_path)))
    context = FleetContext(tmp_path, tmp_path / "ledger", lambda: WorkerPool(tmp_path / "ledger"))
    async with asyncio.timeout(60), MCP.open(McpEntry(id="d", kind="mcp", **fields), context) as device:
        assert isinstance(device, McpDevice)
        yield device


@contextlib.contextmanager
def served(folder: Path, port: int = 0, script: Path = SCRIPTED) -> Iterator[tuple[str, BaseProcess]]:
    """Run a server over HTTP, by default the scripted one; yield its URL and its process."""
    if not port:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
    process = forked_script(script, str(folder), str(port))
    try:
        give_up = time.monotonic() + 30
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp", process
    finally:
        process.kill()
        process.join()


def attempt(skill: str, key: str = "r:1.0", **fields: Any) -> Attempt:
    return Attempt(key=key, run_id="r", task_id="t", device_id="d", skill=skill, **fields)


def calls(folder: Path) -> list[str]:
    """Return the calls that a scripted server has counted, as ``tool key``."""
    file = folder / "calls"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


class HeardNotices:
    """The notices of a device, as a test notes them."""

    def __init__(self) -> None:
        self.losses: list[str] = []
        self.profiles: list[AgentProfile | None] = []

    def lost(self, why: str) -> None:
        self.losses.append(why)

    def found(self, profile: AgentProfile | None = None) -> None:
        self.profiles.append(profile)
