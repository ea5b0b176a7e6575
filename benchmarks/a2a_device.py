"""What a durable task on an A2A agent costs, beside the SDK's client that sends the same message."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest

from benchmarks.device_runs import chain, run_s
from tests.support.a2a_process import AgentProcess


async def _bare_s(url: str, length: int) -> float:
    """Return the seconds of so many tasks with the SDK's client, one after the other."""
    async with httpx.AsyncClient() as http:
        client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(url)
        started = time.perf_counter()
        for number in range(length):
            message = Message(message_id=f"bare {started} {number}", role=Role.ROLE_USER, parts=[Part(text="answer")])
            async for _ in client.send_message(SendMessageRequest(message=message)):
                pass
        return time.perf_counter() - started


async def _durable_s(url: str, length: int, folder: Path) -> float:
    """Return the seconds of a chain of so many tasks on a device of kind ``a2a``."""
    (folder / "fleet.toml").write_text(f'[[devices]]\nid = "agent"\nkind = "a2a"\nurl = "{url}"\n', encoding="utf-8")
    return await run_s(chain(length, device="agent", description="answer"), folder / "fleet.toml", folder / "runs.db")


def _measured(length: int, rounds: int) -> tuple[float, float]:
    """Return the seconds of one task, with the SDK's client and on a device: medians of alternate rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        agent = AgentProcess(folder)
        try:
            bare, durable = [], []
            for _ in range(rounds):
                bare.append(asyncio.run(_bare_s(agent.url, length)) / length)
                durable.append(asyncio.run(_durable_s(agent.url, length, folder)) / length)
            return statistics.median(bare), statistics.median(durable)
        finally:
            agent.kill()


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    bare_s, durable_s = _measured(20, 1) if quick else _measured(100, 5)
    return [
        f"| a task of an A2A agent with the SDK's client, streamed | {bare_s * 1000:.2f} ms |",
        f"| the same task of a durable chain on a device of kind `a2a` | {durable_s * 1000:.2f} ms, {durable_s / bare_s:.2f} x |",
    ]
