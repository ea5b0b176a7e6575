"""Fan-outs on a device that is slower than its queue."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from asterism.app.bootstrap import open_runtime
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.runtime.runtime import Runtime
from asterism.stores.memory import MemoryStore


class TwoPlaces(Device):
    """Performs two attempts at a time. The first item fails, and the second one ends when the run has stopped the others."""

    runtime: Runtime

    def __init__(self, *, idempotent: bool) -> None:
        skill = Skill(name="transform", parameters={"properties": {"number": {}}}, idempotent=idempotent)
        self.profile = AgentProfile(device_id="cpu", skills=(skill,), concurrency=2)
        self.performed: list[int] = []

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        await signs.begun()
        self.performed.append(number := attempt.arguments["number"])
        if number == 0:
            raise ValueError("no")
        while len(self.performed) < 3 and (run := self.runtime.driver.live(attempt.run_id)) and run.memory.queued:  # noqa: ASYNC110 - the run sets no event for it
            await asyncio.sleep(0)
        return AttemptResult(result=number)


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_device_performs_no_item_after_the_first_failure(tmp_path: Path, *, idempotent: bool) -> None:
    """B2."""
    task = {"task_id": "b", "device": "cpu", "skill": "transform", "inputs": {"number": "${item}"}}
    device = TwoPlaces(idempotent=idempotent)

    async def main() -> None:
        async with asyncio.timeout(60), open_runtime(MemoryStore(), {"cpu": device}, tmp_path / "runs.db") as runtime:
            device.runtime = runtime
            plan = parse_plan({"tasks": [{**task, "for_each": list(range(30))}]})
            first = ConstellationSubmitted(request="r", fleet=(device.profile,), plan=plan)
            run = await runtime.submit(CONSTELLATION_AGENT, first, title="r", actor="a")
            assert (await runtime.drive(run)).outcome == "failed"

    asyncio.run(main())
    assert device.performed == [0, 1]
