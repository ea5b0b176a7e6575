"""Takeover of a run: the dead owner's processes are ended before any effect is retried."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from asterism.constellation.form import FORM
from asterism.constellation.machine.events import AskPlanner, ConstellationSubmitted, Planned
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.kernel.machine import EffectResult
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.runtime import Runtime
from asterism.stores.memory import MemoryDatabase, MemoryStore
from tests.support.constellation_harness import FLEET


class Scene:
    """Processes that own one run, one after the other; ``happened`` lists their actions."""

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        self.happened: list[str] = []
        self.began = asyncio.Event()
        self.answers = False

    async def perform(self, effect_id: str, request: Any, report: Any) -> EffectResult:
        self.happened.append("performed")
        self.began.set()
        if not self.answers:
            await asyncio.get_running_loop().create_future()
        return Planned(effect_id=effect_id)

    @contextlib.asynccontextmanager
    async def process(self, name: str) -> Any:
        store = MemoryStore(self.database, name=name)
        driver = Driver(
            store=store,
            clock=SystemClock(),
            forms=by_name([FORM.performed_by({AskPlanner: self})]),
            reap=lambda: self.happened.append("reaped"),
            owner=name,
        )
        async with driver.opened():
            yield Runtime(store, driver, SystemClock()), store

    async def is_killed(self) -> None:
        """A process begins with the run, and is killed while it performs something."""
        async with self.process("first") as (runtime, store):
            await runtime.submit(
                CONSTELLATION_AGENT, ConstellationSubmitted(request="go", fleet=FLEET), title="a run", actor="me", run_id="r"
            )
            driving = asyncio.ensure_future(runtime.drive("r"))
            await self.began.wait()
            store.crash()
            driving.cancel()
            await asyncio.wait([driving])


def test_the_first_owner_of_a_run_reaps_nothing() -> None:
    async def main() -> list[str]:
        scene = Scene()
        await scene.is_killed()
        return scene.happened

    assert asyncio.run(main()) == ["performed"]


def test_the_first_owner_after_a_crash_reaps_before_it_performs_anything_again() -> None:
    async def main() -> tuple[list[str], str]:
        scene = Scene()
        await scene.is_killed()
        scene.answers = True
        async with scene.process("second") as (runtime, _):
            row = await runtime.drive("r")
        return scene.happened, row.outcome

    happened, outcome = asyncio.run(main())
    assert happened[:3] == ["performed", "reaped", "performed"]
    assert happened.count("reaped") == 1
    assert outcome == "failed", "nothing was planned"
