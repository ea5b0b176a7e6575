"""What many tasks that are under way at once cost, beside the bare client that makes the same calls at once."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp import Client

from benchmarks.device_runs import run_s
from benchmarks.mcp_device import SERVER, served

TASKS = 200
NAP_S = 1.0
FLEET = """
[[devices]]
id = "programs"
kind = "local"
concurrency = {tasks}

[[devices.commands]]
name = "nap"
argv = ["{python}", "-S", "-c", "import time; time.sleep({nap_s})"]

[[devices]]
id = "tools"
kind = "mcp"
url = "{url}"
concurrency = {tasks}
"""
PROGRAM = (sys.executable, "-S", "-c", f"import time; time.sleep({NAP_S})")


async def _bare_programs_s(_: str) -> float:
    async def call() -> None:
        process = await asyncio.create_subprocess_exec(*PROGRAM, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        await process.communicate()

    return await _together_s(call)


async def _bare_tools_s(url: str) -> float:
    async with Client(url) as client:

        async def call() -> None:
            await client.call_tool("nap", {"seconds": NAP_S})

        return await _together_s(call)


async def _together_s(call: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(TASKS)))
    return time.perf_counter() - started


async def _durable_s(device: str, fleet: Path, arguments: dict[str, Any]) -> float:
    task = {"device": device, "skill": "nap", "inputs": arguments}
    plan = {"tasks": [{"task_id": f"t{number}", **task} for number in range(TASKS)]}
    with tempfile.TemporaryDirectory() as folder:
        return await run_s(plan, fleet, Path(folder) / "runs.db")


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "server.py").write_text(SERVER, encoding="utf-8")
        with served(folder / "server.py") as url:
            fleet = folder / "fleet.toml"
            fleet.write_text(FLEET.format(tasks=TASKS, nap_s=NAP_S, url=url, python=sys.executable), encoding="utf-8")
            sides = {
                "programs": ("programs of a local device", {}, _bare_programs_s),
                "tools": ("tools of an MCP server over HTTP", {"seconds": NAP_S}, _bare_tools_s),
            }
            for device, (what, arguments, bare_s) in sides.items():
                pairs = [(asyncio.run(_durable_s(device, fleet, arguments)), asyncio.run(bare_s(url))) for _ in range(1 if quick else 5)]
                ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
                times = statistics.median(a / b for a, b in pairs)
                found.append(
                    f"| {TASKS} durable tasks at once, {what}, of {NAP_S:g} s each | "
                    f"{ours:.2f} s; the same calls without Asterism: {theirs:.2f} s, {times:.2f} times |"
                )
    return found
