"""Asterism with everything but a process: store, driver, session, dispatcher, machine. The device answers at once, in this process.

What is left is what durable execution costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from asterism.constellation.form import FORM
from asterism.constellation.machine.events import ConstellationSubmitted, Dispatch
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.python.performers import AttemptPerformer
from asterism.devices.dispatch.dispatcher import Dispatcher
from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.ports.observer import Observer
from asterism.engine.ports.store import Store
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.runtime import Runtime
from asterism.stores.memory import MemoryStore
from asterism.stores.sqlite import SqliteStore
from benchmarks.timing import Taken, taking

_TAKE = Skill(name="take", parameters={"type": "object", "properties": {"x": {"type": "integer"}}}, idempotent=True)
IDLE = AgentProfile(device_id="idle", skills=(Skill(name="nothing", idempotent=True), _TAKE), concurrency=10_000)


class IdleDevice(Device):
    """Performs nothing, at once."""

    def __init__(self) -> None:
        super().__init__(IDLE)

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        await signs.begun()
        return AttemptResult()


@contextlib.asynccontextmanager
async def open_runtime(store: Store, *, device: Device | None = None, observers: Sequence[Observer] = ()) -> AsyncIterator[Runtime]:
    """A runtime over the idle device, or one in its place."""
    clock = SystemClock()
    devices: Mapping[str, Device] = {"idle": device or IdleDevice()}
    async with Dispatcher(devices, clock.now) as dispatcher:
        driver = Driver(
            store=store,
            clock=clock,
            forms=by_name([FORM.performed_by({Dispatch: AttemptPerformer(dispatcher)})]),
            observers=observers,
        )
        async with driver.opened():
            yield Runtime(store, driver, clock)


async def submit(runtime: Runtime, plan: PlanDocument) -> str:
    """A new run of the plan; its id."""
    first = ConstellationSubmitted(request="measured", fleet=(IDLE,), plan=plan)
    return await runtime.submit(CONSTELLATION_AGENT, first, title="measured", actor="benchmark")


async def run_plan(runtime: Runtime, plan: PlanDocument) -> None:
    """Submit a plan and take it to its end."""
    row = await runtime.drive(await submit(runtime, plan))
    if row.outcome != "finished":
        raise RuntimeError(f"the run ended {row.outcome or row.status}, so its time means nothing")


def durable(plan: PlanDocument, copies: int = 1, *, observers: Sequence[Observer] = ()) -> Taken:
    """So many runs of a plan at once, over a fresh SQLite file: from submitting to FINISH."""

    async def measured() -> Taken:
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteStore.open(Path(folder) / "runs.db", create=True)
            try:
                return await _run(store, plan, copies, observers)
            finally:
                await store.close()

    return asyncio.run(measured())


def in_memory(plan: PlanDocument, copies: int = 1, *, observers: Sequence[Observer] = ()) -> Taken:
    """The same over the store in memory."""
    return asyncio.run(_run(MemoryStore(), plan, copies, observers))


async def _run(store: Store, plan: PlanDocument, copies: int, observers: Sequence[Observer] = ()) -> Taken:
    async with open_runtime(store, observers=observers) as runtime:
        with taking() as taken:
            async with asyncio.TaskGroup() as group:
                for _ in range(copies):
                    group.create_task(run_plan(runtime, plan))
    return taken
