"""What a task costs more when a process of its own carries it out: the local device, warm."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from pathlib import Path
from typing import Any

from asterism.bootstrap import open_devices, open_runtime, open_store
from asterism.constellation.documents import parse_plan
from asterism.machines.constellation_agent.events import ConstellationSubmitted
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT

SKILLS = """
from asterism import skill

@skill(idempotent=True)
def nothing() -> dict:
    "Does nothing."
    return {}
"""
FLEET = '[[devices]]\nid = "shop"\nkind = "local"\nskills = ["skills.py:nothing"]\n'


async def _chain_s(length: int) -> float:
    names = [f"t{number}" for number in range(length)]
    lines = [{"from": source, "to": target} for source, target in itertools.pairwise(names)]
    return await _run_s({"tasks": [{"task_id": name, "device": "shop", "skill": "nothing"} for name in names], "dependencies": lines})


async def fan_out_s(items: int, concurrency: int) -> float:
    """Return the seconds of a fan-out on a local device, after a first item that starts its worker processes."""
    first = {"task_id": "first", "device": "shop", "skill": "nothing"}
    each = {"task_id": "items", "device": "shop", "skill": "nothing", "for_each": list(range(items))}
    return await _run_s({"tasks": [first, each], "dependencies": [{"from": "first", "to": "items"}]}, concurrency)


async def _run_s(plan: dict[str, Any], concurrency: int = 1) -> float:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "skills.py").write_text(SKILLS, encoding="utf-8")
        (folder / "fleet.toml").write_text(f"{FLEET}concurrency = {concurrency}\n", encoding="utf-8")
        database = folder / "runs.db"
        async with (
            open_store(database, create=True) as store,
            open_devices(folder / "fleet.toml", database) as (fleet, devices),
            open_runtime(store, devices, database) as runtime,
        ):
            first = ConstellationSubmitted(request="measured", fleet=tuple(fleet.values()), plan=parse_plan(plan))
            run = await runtime.submit(CONSTELLATION_AGENT, first, title="measured", actor="benchmark")
            started = time.perf_counter()
            row = await runtime.drive(run)
            taken_s = time.perf_counter() - started
    if row.outcome != "finished":
        raise RuntimeError(f"the run ended {row.outcome}")
    return taken_s


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    length = 30 if quick else 300
    each_ms = asyncio.run(_chain_s(length)) / length * 1000
    return [f"| (a) a task of a durable chain on a local device, including its warm worker process | {each_ms:.2f} ms |"]
