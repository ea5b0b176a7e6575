"""A process that owns a pool and performs one attempt; its progress goes to stdout, line by line, until it is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from asterism.devices.attempts.worker_protocol import FunctionJob
from asterism.devices.port import Attempt
from asterism.devices.workers.pool import WorkerPool, WorkerSettings


class Printed:
    """Prints the progress."""

    place = None

    def progress(self, fraction: float | None = None, message: str = "") -> None:
        print(message, flush=True)

    def queued(self, reason: str = "") -> None:
        pass

    async def begun(self) -> None:
        pass

    async def attached(self, handle: str) -> None:
        pass


async def main(ledger: str, skill: str) -> None:
    async with WorkerPool(Path(ledger)) as pool:
        attempt = Attempt(key="r:1.0", run_id="r", task_id="t", device_id="d", skill=skill)
        kit = WorkerSettings(Path(__file__).parent, ("local_skills.py",))
        end = await pool.perform(kit, FunctionJob(f"local_skills.py:{skill}"), attempt, Printed())
        print(end, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
