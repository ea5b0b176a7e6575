"""(c) What runs that wait for a person cost: memory, the processor, and the time until one of them continues."""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import tempfile
import time
from pathlib import Path

import msgspec

from asterism.engine.runtime.runtime import Runtime
from asterism.stores.sqlite import SqliteStore
from benchmarks.engine import open_runtime, submit
from benchmarks.plans import chain

RUNS = 2000
AT_ONCE = 100
IDLE_S = 5.0


def resident_bytes() -> int:
    """Memory of this process that is in use now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _measured(runs: int, idle_s: float) -> list[str]:
    plan = chain(3)
    asking = msgspec.structs.replace(plan, tasks=(msgspec.structs.replace(plan.tasks[0], requires_approval=True), *plan.tasks[1:]))
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore.open(Path(folder) / "runs.db", create=True)
        try:
            async with open_runtime(store) as runtime:

                async def park() -> None:
                    row = await runtime.drive(await submit(runtime, asking))
                    if row.status != "waiting":
                        raise RuntimeError(f"the run is {row.status}, and was to wait")

                async def park_all(count: int) -> None:
                    for start in range(0, count, AT_ONCE):
                        async with asyncio.TaskGroup() as group:
                            for _ in range(min(AT_ONCE, count - start)):
                                group.create_task(park())

                await park_all(runs)  # the first that many bring caches and arenas to their size
                gc.collect()
                before = resident_bytes()
                await park_all(runs)
                gc.collect()
                grown = max(0, resident_bytes() - before)
                cpu = time.process_time()
                await asyncio.sleep(idle_s)
                idle = (time.process_time() - cpu) / idle_s
                resumed = [await _resumed_s(runtime, row.run_id) for row in (await runtime.runs(limit=200))[::4]]
        finally:
            await store.close()
    return [
        f"| (c) {runs:,} more runs that wait for a person: resident memory of each | {grown / runs:,.0f} bytes |",
        f"| (c) {2 * runs:,} runs that wait: processor used | {idle:.2%} |",
        f"| (c) one of them, from a person's answer to the end of its three tasks | {statistics.median(resumed) * 1000:.1f} ms |",
    ]


async def _resumed_s(runtime: Runtime, run_id: str) -> float:
    (question,) = await runtime.store.inquiries(run_id=run_id)
    started = time.perf_counter()
    await runtime.post_answer(question.inquiry_id, "approve", actor="benchmark")
    row = await runtime.drive(run_id)
    taken_s = time.perf_counter() - started
    if row.outcome != "finished":
        raise RuntimeError(f"the run is {row.status}, and was to finish")
    return taken_s


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    return asyncio.run(_measured(100 if quick else RUNS, 0.2 if quick else IDLE_S))
