"""What a large fleet costs: opening its devices, submitting a run, memory, and the first entry, which has every profile."""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from pathlib import Path

import msgspec

from asterism.app.bootstrap import open_devices, open_runtime, open_store
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from benchmarks.waiting import resident_bytes

DEVICE = """
[[devices]]
id = "host{number}"
kind = "local"

[[devices.commands]]
name = "count"
description = "Count the lines of a file."
argv = ["true", "{{path}}"]

[[devices.commands]]
name = "nothing"
argv = ["true"]
"""
SUBMISSIONS = 9


class Cost(msgspec.Struct, frozen=True):
    """The cost of a fleet: seconds to open it, to submit a run and to take the run to its end; bytes of memory and of the first entry."""

    opened_s: float
    submitted_s: float
    driven_s: float
    resident: int
    first_entry: int


async def _measured(devices: int) -> Cost:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fleet.toml").write_text("".join(DEVICE.format(number=number) for number in range(devices)), encoding="utf-8")
        plan = parse_plan({"tasks": [{"task_id": "t", "device": f"host{devices - 1}", "skill": "nothing"}]})
        gc.collect()
        before, started = resident_bytes(), time.perf_counter()
        async with (
            open_store(folder / "runs.db", create=True) as store,
            open_devices(folder / "fleet.toml", folder / "runs.db") as (fleet, opened),
            open_runtime(store, opened, folder / "runs.db") as runtime,
        ):
            opened_s = time.perf_counter() - started
            gc.collect()
            resident = resident_bytes() - before
            submitted, driven, run = [], [], ""
            for _ in range(SUBMISSIONS):
                first = ConstellationSubmitted(request="measured", fleet=tuple(fleet.values()), plan=plan)
                started = time.perf_counter()
                run = await runtime.submit(CONSTELLATION_AGENT, first, title="measured", actor="benchmark")
                submitted.append(time.perf_counter() - started)
                started = time.perf_counter()
                if (row := await runtime.drive(run)).outcome != "finished":
                    raise RuntimeError(f"the run ended {row.outcome}")
                driven.append(time.perf_counter() - started)
            (record,) = await store.records(run, limit=1)
    return Cost(opened_s, statistics.median(submitted), statistics.median(driven), resident, len(record.body.encode()))


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    devices = 50 if quick else 1000
    asyncio.run(_measured(1))  # loads the modules
    one, many = asyncio.run(_measured(1)), asyncio.run(_measured(devices))
    fleet = f"a fleet of {devices:,} local devices with two skills each"
    grown, each = (many.resident - one.resident) / devices / 1024, (many.first_entry - one.first_entry) / (devices - 1)
    return [
        f"| {fleet}: opened | {many.opened_s:.2f} s; of one device: {one.opened_s:.2f} s |",
        f"| {fleet}: a run submitted | {many.submitted_s * 1000:.1f} ms; of one device: {one.submitted_s * 1000:.1f} ms |",
        f"| {fleet}: its one task, from the acquisition to the end | {many.driven_s * 1000:.1f} ms; {one.driven_s * 1000:.1f} ms |",
        f"| {fleet}: resident memory of each device | {grown:.1f} kB |",
        f"| {fleet}: the first entry of a run | {many.first_entry / 1024:,.0f} kB, {each:,.0f} bytes a device |",
    ]
