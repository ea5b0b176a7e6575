"""A process that submits or resumes a run and, if told to, is killed right after N entries, of it and of its children, became durable.

usage: crash_owner.py DATABASE FLEET RUN PLAN_JSON|- DIE_AFTER
Prints the run's status and outcome when it lets go of it by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from asterism.app.bootstrap import open_devices, open_runtime, open_store
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.engine.kernel.journal import Entry
from asterism.errors import AsterismError


class KilledAfter:
    """An observer that is the crash: entry N is durable, its effects are not begun."""

    def __init__(self, count: int) -> None:
        self.left = count

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        self.left -= len(entries)
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def trouble(self, run_id: str, message: str) -> None:
        print(message, file=sys.stderr)


async def main(database: Path, fleet: Path, run_id: str, plan: str, die_after: int) -> None:
    async with (
        open_store(database, create=True) as store,
        open_devices(fleet, database) as (profiles, devices),
        open_runtime(store, devices, database, observers=[KilledAfter(die_after)]) as runtime,
    ):
        if plan != "-":
            document = parse_plan(json.loads(plan))
            first = ConstellationSubmitted(request="crash", fleet=tuple(profiles.values()), fleet_file=str(fleet), plan=document)
            await runtime.submit(CONSTELLATION_AGENT, first, title="crash", actor="test", run_id=run_id)
        row = await runtime.drive(run_id)
        print(row.status, row.outcome, flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])))
    except AsterismError as error:
        sys.exit(f"{type(error).__name__}: {error}")
