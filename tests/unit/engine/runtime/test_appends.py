"""The appends of a run: a task costs one, however long it waits for its device."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asterism.constellation.form import FORM
from asterism.constellation.machine.events import ConstellationSubmitted, Dispatch
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.python.performers import AttemptPerformer
from asterism.devices.dispatch.dispatcher import Dispatcher
from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.ports.store import Commit
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.runtime import Runtime
from asterism.stores.memory import MemoryStore
from tests.support.constellations import plan

PROFILE = AgentProfile(device_id="d", skills=(Skill(name="once"), Skill(name="again", idempotent=True)))


class Counting(MemoryStore):
    """A store that counts its appends."""

    def __init__(self) -> None:
        super().__init__()
        self.appends = 0

    async def append(self, commit: Commit) -> None:
        self.appends += 1
        await super().append(commit)


class Brief(Device):
    """A device whose work takes a moment."""

    def __init__(self) -> None:
        super().__init__(PROFILE)

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        await signs.begun()
        await asyncio.sleep(0.001)
        return AttemptResult(result=attempt.task_id)


def appends(document: dict[str, Any]) -> int:
    async def main() -> int:
        store, clock = Counting(), SystemClock()
        async with Dispatcher({"d": Brief()}, clock.now) as dispatcher:
            driver = Driver(
                store=store,
                clock=clock,
                forms=by_name([FORM.performed_by({Dispatch: AttemptPerformer(dispatcher)})]),
            )
            async with driver.opened():
                runtime = Runtime(store, driver, clock)
                first = ConstellationSubmitted(request="count", fleet=(PROFILE,), plan=parse_plan(document))
                row = await runtime.drive(await runtime.submit(CONSTELLATION_AGENT, first, title="count", actor="test"))
        assert row.outcome == "finished"
        return store.appends

    return asyncio.run(main())


@pytest.mark.parametrize("skill", ["once", "again"])
def test_a_task_of_a_chain_is_one_append(skill: str) -> None:
    assert appends(plan("a b c e f", "a>b b>c c>e e>f", skill=skill)) == appends(plan("a", skill=skill)) + 4


@pytest.mark.parametrize("skill", ["once", "again"])
def test_a_task_that_waits_for_its_device_is_one_append_too(skill: str) -> None:
    assert appends(plan("a b c e f", skill=skill)) == appends(plan("a", skill=skill)) + 4
