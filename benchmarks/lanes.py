"""What a task costs when a wide plan runs in real processes: lanes of tasks on a local device; and what showing that run takes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from asterism.app.bootstrap import open_devices, open_runtime, open_store
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from benchmarks.local_device import FLEET, SKILLS

LANES = 100


async def _run(folder: Path, length: int) -> tuple[str, float]:
    """Run so many tasks in each lane; returns the run's id, and the seconds from submitting it to FINISH."""
    (folder / "skills.py").write_text(SKILLS, encoding="utf-8")
    (folder / "fleet.toml").write_text(f"{FLEET}concurrency = 8\n", encoding="utf-8")
    tasks = [{"task_id": f"t{lane}-{step}", "device": "shop", "skill": "nothing"} for lane in range(LANES) for step in range(length)]
    lines = [{"from": f"t{lane}-{step}", "to": f"t{lane}-{step + 1}"} for lane in range(LANES) for step in range(length - 1)]
    database = folder / "runs.db"
    async with (
        open_store(database, create=True) as store,
        open_devices(folder / "fleet.toml", database) as (fleet, devices),
        open_runtime(store, devices, database) as runtime,
    ):
        first = ConstellationSubmitted(
            request="measured", fleet=tuple(fleet.values()), plan=parse_plan({"tasks": tasks, "dependencies": lines})
        )
        started = time.perf_counter()
        row = await runtime.drive(await runtime.submit(CONSTELLATION_AGENT, first, title="measured", actor="benchmark"))
        taken_s = time.perf_counter() - started
    if row.outcome != "finished":
        raise RuntimeError(f"the run ended {row.outcome}")
    return row.run_id, taken_s


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    length = 3 if quick else 200
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_id, taken_s = asyncio.run(_run(folder, length))
        each_ms = taken_s / (LANES * length) * 1000
        started = time.perf_counter()
        command = [str(Path(sys.executable).with_name("asterism")), "show", run_id, "--database", str(folder / "runs.db")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        show_s = time.perf_counter() - started
    told = f"{LANES * length:,} tasks in {LANES} lanes over local processes, 8 at a time"
    return [f"| {told}: one task | {each_ms:.2f} ms |", f"| `asterism show` of that run, the whole process | {show_s:.1f} s |"]
