"""A process that submits or resumes a run planned by a model and, if told to, is killed around a question to it.

usage: model_owner.py DATABASE RUN LOG new|resume BASE_URL REPLY ENTRY
REPLY: it dies when it has the answer to that question of the run, before anything of it is written; 0 for never.
ENTRY: it dies right after that entry became durable; 0 for never. Prints how the run ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from asterism.app.bootstrap import open_planner, open_runtime, open_store
from asterism.constellation.machine.events import ConstellationSubmitted, RunOptions
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.planner.model_choice import choose_model
from asterism.constellation.planner.port import Planner, PlannerRequest, Proposal
from asterism.devices.port import Attempt, Device
from tests.end_to_end.crash_owner import KilledAfter
from tests.support.http_runs import SEED_FLEET, HandDevice

NEVER = 10_000


class DiesWithTheAnswer:
    """The planner of a process that has heard the answer, and then is no more."""

    def __init__(self, planner: Planner, number: int) -> None:
        self._planner = planner
        self._number = number

    async def propose(self, question: PlannerRequest) -> Proposal:
        proposal = await self._planner.propose(question)
        if question.number == self._number:
            os.kill(os.getpid(), signal.SIGKILL)
        return proposal


async def main(database: Path, run_id: str, log: Path, how: str, *more: str) -> None:
    base_url, reply, entry = more[0], int(more[1]), int(more[2])

    async def work(attempt: Attempt) -> object:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{attempt.task_id}\n")
        return {"accuracy": 0.92} if attempt.skill == "evaluate" else {}

    devices: dict[str, Device] = {profile.device_id: HandDevice(profile, work) for profile in SEED_FLEET}
    async with (
        open_planner(choose_model(model="openai:gpt-4o", base_url=base_url)) as planner,
        open_store(database, create=True) as store,
        open_runtime(
            store, devices, database, planner=DiesWithTheAnswer(planner, reply), observers=[KilledAfter(entry or NEVER)]
        ) as runtime,
    ):
        if how == "new":
            first = ConstellationSubmitted(request="Weave it", fleet=tuple(SEED_FLEET), options=RunOptions(replan="always"))
            await runtime.submit(CONSTELLATION_AGENT, first, title="crash", actor="test", run_id=run_id)
        row = await runtime.drive(run_id)
        print(row.status, row.outcome, flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), *sys.argv[4:]))
