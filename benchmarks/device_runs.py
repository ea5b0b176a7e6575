"""Durable runs on the devices of a fleet file, as the benchmarks of device kinds measure them."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

from asterism.app.bootstrap import open_devices, open_runtime, open_store
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan


def chain(length: int, **task: str) -> dict[str, Any]:
    """Return the plan of so many tasks, one after the other, each with these fields."""
    names = [f"t{number}" for number in range(length)]
    lines = [{"from": source, "to": target} for source, target in itertools.pairwise(names)]
    return {"tasks": [{"task_id": name, **task} for name in names], "dependencies": lines}


async def run_s(plan: dict[str, Any], fleet_file: Path, database: Path) -> float:
    """Return the seconds in which a plan runs, without those of opening and submitting. Raises RuntimeError if it fails."""
    async with (
        open_store(database, create=True) as store,
        open_devices(fleet_file, database) as (fleet, devices),
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
