"""A process that drives a run of tasks on one device, or resumes it.

usage: places_owner.py DATABASE FLEET RUN SKILL SECONDS…, with the seconds of each task
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import asterism
from asterism import Device, Fleet
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.errors import RunNotFound

SKILLS = Path(__file__).with_name("places_skills.py")


async def main(database: Path, fleet: Path, run_id: str, skill: str, *seconds: str) -> None:
    named = Fleet(Device("gpu", skills=[f"{SKILLS}:use", f"{SKILLS}:use_once"]), name="lab")
    async with asterism.open(database, fleet=fleet if fleet.name != "-" else named) as runtime:
        try:
            await runtime.store.run(run_id)
        except RunNotFound:
            one: dict[str, Any] = {"device": "gpu", "skill": skill, "retry": {"max_attempts": 9, "backoff_s": 0}}
            plan = parse_plan(
                {"tasks": [{"task_id": f"t{number}", "inputs": {"seconds": float(it)}, **one} for number, it in enumerate(seconds)]}
            )
            first = ConstellationSubmitted(request="use", fleet=tuple(runtime.fleet.values()), fleet_file=runtime.fleet_file, plan=plan)
            await runtime.submit(CONSTELLATION_AGENT, first, title="use", actor="test", run_id=run_id)
        row = await runtime.drive(run_id)
        print(row.status, row.outcome, flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
