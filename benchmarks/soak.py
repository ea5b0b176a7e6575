"""``python -m benchmarks.soak``: thousands of runs of mixed shapes, one after another in one process, pruned as they end.

What a process must not do is counted as it goes: grow, let its database grow, leave files or processes behind.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from asterism.app.bootstrap import open_devices, open_runtime, open_store
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import PlanDocument, parse_plan
from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.engine.control.run_control import Cancel
from asterism.engine.kernel.profile import Fleet
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import AsterismError
from benchmarks.engine import IDLE
from benchmarks.plans import chain, fan, layered
from benchmarks.waiting import resident_bytes

RUNS = 20_000
SAMPLES = 20
PRUNE_EVERY = 100
KEPT_BYTES = 30_000_000
"""The bound of the database and its log."""
GROWN_BYTES = 12_000_000
"""Memory that a process may have won between a quarter of the way and the end."""
ROOM = 1.2
"""How many times their bound the database and its log may be, at any moment."""
LOCAL_EVERY = 50
"""One run in so many is carried out by a process of its own."""

SKILLS = """
from asterism import skill

@skill(idempotent=True)
def double(x: int) -> dict:
    "Twice as much."
    return {"x": 2 * x}
"""
FLEET = '[[devices]]\nid = "shop"\nkind = "local"\nskills = ["skills.py:double"]\n'

Drive = Callable[[Runtime, str], Awaitable[None]]


class Sample(msgspec.Struct, frozen=True):
    """What there was after so many runs; of the database, its largest size since the last sample."""

    runs: int
    resident: int
    database: int
    files: int
    processes: int
    threads: int

    def line(self) -> str:
        """As a row of a table."""
        cells = (
            f"{self.runs:,}",
            f"{self.resident / 1e6:.1f} MB",
            f"{self.database / 1e6:.1f} MB",
            self.files,
            self.processes,
            self.threads,
        )
        return f"| {' | '.join(map(str, cells))} |"


class MoodyDevice(Device):
    """Does nothing, and fails where it is asked to."""

    def __init__(self) -> None:
        super().__init__(IDLE)

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        await signs.begun()
        if attempt.description == "fails":
            raise RuntimeError("as it was asked to")
        return AttemptResult(result={"x": 1, "text": "x" * 100})


async def _to_its_end(runtime: Runtime, run_id: str) -> None:
    await runtime.drive(run_id)


async def _with_a_yes(runtime: Runtime, run_id: str) -> None:
    await runtime.drive(run_id)
    (question,) = await runtime.store.inquiries(run_id=run_id)
    await runtime.post_answer(question.inquiry_id, "approve", actor="soak")
    await runtime.drive(run_id)


async def _cancelled(runtime: Runtime, run_id: str) -> None:
    await runtime.post(run_id, Cancel(reason="soak"), actor="soak", key="cancel")
    await runtime.drive(run_id)


def shapes() -> list[tuple[PlanDocument, Drive]]:
    """What is run, in turns; the last by a process of its own."""
    task = {"device": "idle", "skill": "nothing"}
    asked = {
        "tasks": [{"task_id": "a", **task, "requires_approval": True}, {"task_id": "b", **task}],
        "dependencies": [{"from": "a", "to": "b"}],
    }
    failing = {
        "tasks": [{"task_id": "a", **task, "description": "fails"}, {"task_id": "b", **task}, {"task_id": "c", **task}],
        "dependencies": [{"from": "a", "to": "b"}, {"from": "a", "to": "c", "type": "UNCONDITIONAL"}],
    }
    choosing = {
        "tasks": [{"task_id": name, **task} for name in "abc"],
        "dependencies": [{"from": "a", "to": "b", "condition": "x > 0"}, {"from": "a", "to": "c", "condition": "x > 1"}],
    }
    local = {"tasks": [{"task_id": "a", "device": "shop", "skill": "double", "inputs": {"x": 4}}]}
    return [
        (chain(6), _to_its_end),
        (fan(12), _to_its_end),
        (parse_plan(asked), _with_a_yes),
        (layered(3, 4, 2), _to_its_end),
        (parse_plan(failing), _to_its_end),
        (parse_plan(choosing), _to_its_end),
        (chain(3), _cancelled),
        (parse_plan(local), _to_its_end),
    ]


async def soak(runs: int, folder: Path, told: Callable[[Sample], None], *, keep_bytes: int = KEPT_BYTES) -> list[Sample]:
    """Run so many; the samples, the first of them taken when every shape had been run."""
    (folder / "skills.py").write_text(SKILLS, encoding="utf-8")
    (folder / "fleet.toml").write_text(FLEET, encoding="utf-8")
    database = folder / "runs.db"
    *common, local = shapes()
    samples: list[Sample] = []
    largest = 0
    async with open_store(database, create=True) as store, open_devices(folder / "fleet.toml", database) as (fleet, shop):
        devices: Mapping[str, Device] = {**shop, "idle": MoodyDevice()}
        profiles: Fleet = {**fleet, "idle": IDLE}
        async with open_runtime(store, devices, database) as runtime:
            await store.prune(keep_bytes=0)  # starts the thread for searches, before threads are counted
            for number in range(1, runs + 1):
                plan, drive = local if number % LOCAL_EVERY == 1 else common[number % len(common)]
                first = ConstellationSubmitted(request="soak", fleet=tuple(profiles.values()), plan=plan)
                run = await runtime.submit(CONSTELLATION_AGENT, first, title="soak", actor="soak")
                await drive(runtime, run)
                if (row := await runtime.store.run(run)).status != "ended":
                    raise RuntimeError(f"run {number} is {row.status}")
                largest = max(largest, _size(database))
                if number % PRUNE_EVERY == 0:
                    await store.prune(keep_bytes=keep_bytes)
                if number % max(1, runs // SAMPLES) == 0:
                    samples.append(_sample(number, largest))
                    told(samples[-1])
                    largest = 0
    return samples


def _size(database: Path) -> int:
    return sum(file.stat().st_size for file in database.parent.glob(f"{database.name}*") if file.is_file())


def _sample(runs: int, size: int) -> Sample:
    gc.collect()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return Sample(runs, resident_bytes(), size, len(list(Path("/proc/self/fd").iterdir())), len(children), threading.active_count())


def complaints(samples: list[Sample], keep_bytes: int = KEPT_BYTES) -> list[str]:
    """What has grown that must not."""
    early, last = samples[len(samples) // 4], samples[-1]
    found = []
    if last.resident > early.resident + GROWN_BYTES:
        found.append(f"memory grew from {early.resident:,} to {last.resident:,} bytes")
    if (largest := max(sample.database for sample in samples)) > ROOM * keep_bytes:
        found.append(f"the database had {largest:,} bytes, and its bound is {keep_bytes:,}")
    counts = [(what, getattr(early, what), getattr(last, what)) for what in ("files", "processes", "threads")]
    return found + [f"there were {before} {what}, and there are {after}" for what, before, after in counts if after > before]


def main() -> int:
    """Soak, and say what came of it; 1 if something grew."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help=f"how many ({RUNS})")
    parser.add_argument("--keep-mb", type=int, default=KEPT_BYTES // 10**6, help="the bound of the database and its log (%(default)s)")
    options = parser.parse_args()
    keep_bytes = options.keep_mb * 10**6
    print("| runs | resident memory | database | open files | processes | threads |\n|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        samples = asyncio.run(soak(options.runs, Path(folder), lambda it: print(it.line(), flush=True), keep_bytes=keep_bytes))
    found = complaints(samples, keep_bytes)
    print("\n".join(found) or "nothing grew that must not")
    return 1 if found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AsterismError as error:
        sys.exit(f"{type(error).__name__}: {error}")
