"""What a task costs that a server drives, beside one that ``asterism run`` drives: between the entries of a durable chain."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from asterism.engine.ports.store import RunRow
from asterism.service.tokens import new_token
from asterism.stores.sqlite import SqliteStore
from benchmarks.device_runs import chain
from benchmarks.http_load import connected
from benchmarks.served import Served, asterism_server
from benchmarks.server_load import write_fleet

WARM = 0.2
"""The part of a chain that is not measured: a process of a worker may be starting."""
POLL_S = 0.05


async def _ended(store: SqliteStore, run_id: str) -> RunRow:
    while (row := await store.run(run_id)).status != "ended":  # noqa: ASYNC110 - another process drives it
        await asyncio.sleep(POLL_S)
    return row


async def _task_s(store: SqliteStore, run_id: str, length: int) -> float:
    """Return the seconds of a task, by the times of the entries of its run."""
    records = await store.records(run_id)
    first = records[round(len(records) * WARM)]
    return (records[-1].at - first.at) / (length * (1 - WARM))


async def _by_server(store: SqliteStore, server: Served, token: str, plan: Path, length: int) -> float:
    body = {"plan": json.loads(plan.read_text(encoding="utf-8"))}  # noqa: ASYNC240 - a small file
    async with connected(server.port) as connection:
        run_id = (await connection.call("POST", "/api/runs", token=token, body=body))["run_id"]
    await _ended(store, run_id)
    return await _task_s(store, run_id, length)


async def _by_command(database: Path, plan: Path, fleet: Path, length: int) -> float:
    argv = [sys.executable, "-m", "asterism.cli", "run", str(plan), "--fleet", str(fleet), "--database", str(database)]
    await asyncio.to_thread(subprocess.run, argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    store = SqliteStore.open(database, create=False)
    try:
        (row,) = await store.runs(limit=1)
        return await _task_s(store, row.run_id, length)
    finally:
        await store.close()


async def _measured(folder: Path, length: int, rounds: int) -> tuple[list[float], list[float]]:
    fleet, plan = write_fleet(folder), folder / "plan.json"
    plan.write_text(json.dumps(chain(length, device="shop", skill="nothing")), encoding="utf-8")
    store = SqliteStore.open(folder / "served.db", create=True)
    try:
        token, row = new_token("bench", ["admin"], 0.0)
        await store.add_token(row)
        with asterism_server(folder / "served.db", fleet) as server:
            sides: tuple[Callable[[], Awaitable[float]], ...] = (
                lambda: _by_server(store, server, token, plan, length),
                lambda: _by_command(folder / "run.db", plan, fleet, length),
            )
            turns = [[await side() for side in sides] for _ in range(rounds)]
    finally:
        await store.close()
    return [turn[0] for turn in turns], [turn[1] for turn in turns]


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    with tempfile.TemporaryDirectory() as folder:
        served, here = asyncio.run(_measured(Path(folder), 30 if quick else 500, 1 if quick else 9))
    times = statistics.median(a / b for a, b in zip(served, here, strict=True))
    ours_ms, theirs_ms = statistics.median(served) * 1000, statistics.median(here) * 1000
    what = "a task of a durable chain on a local device, driven by `asterism serve`"
    return [f"| {what} | {ours_ms:.2f} ms; by `asterism run`: {theirs_ms:.2f} ms, {times:.2f} times |"]
