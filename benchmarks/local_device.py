"""What a task costs more when a process of its own carries it out: the local device, warm."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.device_runs import chain, run_s

SKILLS = """
from asterism import skill

@skill(idempotent=True)
def nothing() -> dict:
    "Does nothing."
    return {}
"""
FLEET = '[[devices]]\nid = "shop"\nkind = "local"\nskills = ["skills.py:nothing"]\n'


async def _chain_s(length: int) -> float:
    return await _run_s(chain(length, device="shop", skill="nothing"))


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
        return await run_s(plan, folder / "fleet.toml", folder / "runs.db")


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    length = 30 if quick else 300
    each_ms = asyncio.run(_chain_s(length)) / length * 1000
    return [f"| (a) a task of a durable chain on a local device, including its warm worker process | {each_ms:.2f} ms |"]
