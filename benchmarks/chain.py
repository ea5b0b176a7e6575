"""A chain of tasks that do nothing, through everything but a process: store, driver, session, dispatcher, machine.

What is left is what durable execution costs. The device answers at once and in this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from asterism.constellation.documents import LineSpec, PlanDocument, TaskSpec
from asterism.constellation.profile import AgentProfile, Skill
from asterism.devices.dispatcher import Dispatcher
from asterism.machines.constellation_agent.events import Dispatch, Submitted
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.runtime.clock import SystemClock
from asterism.runtime.driver import Driver
from asterism.runtime.performers import AttemptPerformer
from asterism.runtime.ports import Attempt, AttemptEnd, ProgressSink, Store
from asterism.runtime.runtime import Runtime
from asterism.stores.memory import MemoryStore
from asterism.stores.sqlite import SqliteStore


class IdleDevice:
    """Performs nothing, at once."""

    profile = AgentProfile(device_id="idle", skills=(Skill(name="nothing", idempotent=True),))

    async def perform(self, attempt: Attempt, progress: ProgressSink) -> AttemptEnd:
        return AttemptEnd()


def chain_plan(length: int) -> PlanDocument:
    """Tasks in a line, each waiting for the one before it."""
    return PlanDocument(
        tasks=tuple(TaskSpec(task_id=f"t{number}", name="nothing", device="idle") for number in range(length)),
        dependencies=tuple(LineSpec(source=f"t{number - 1}", target=f"t{number}") for number in range(1, length)),
    )


@contextlib.asynccontextmanager
async def open_runtime(store: Store) -> AsyncIterator[Runtime]:
    """A runtime over the idle device."""
    device, clock = IdleDevice(), SystemClock()
    async with Dispatcher({"idle": device}, clock.now) as dispatcher:
        driver = Driver(
            store=store,
            clock=clock,
            machines={CONSTELLATION_AGENT.name: CONSTELLATION_AGENT},
            performers={Dispatch: AttemptPerformer(dispatcher)},
        )
        async with driver.opened():
            yield Runtime(store, driver, clock)


async def run_chain(store: Store, plan: PlanDocument) -> float:
    """Submit a chain and take it to its end; the seconds from the one to the other."""
    async with open_runtime(store) as runtime:
        first = Submitted(request="a chain", fleet=(IdleDevice.profile,), plan=plan)
        started = time.perf_counter()
        run = await runtime.submit(CONSTELLATION_AGENT, first, title="a chain", actor="benchmark")
        row = await runtime.drive(run)
        taken_s = time.perf_counter() - started
    if row.outcome != "finished":
        raise RuntimeError(f"the chain ended {row.outcome or row.status}, so its time means nothing")
    return taken_s


def durable_chain_s(plan: PlanDocument) -> float:
    """Seconds of a chain over a fresh SQLite file."""

    async def measured() -> float:
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteStore.open(Path(folder) / "chain.db", create=True)
            try:
                return await run_chain(store, plan)
            finally:
                await store.close()

    return asyncio.run(measured())


def memory_chain_s(plan: PlanDocument) -> float:
    """Seconds of a chain over the in-memory store."""

    async def measured() -> float:
        store = MemoryStore()
        try:
            return await run_chain(store, plan)
        finally:
            await store.close()

    return asyncio.run(measured())
