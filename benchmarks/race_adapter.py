"""How a race of durable engines runs Asterism: loads given from outside, over an idle device in this process, durable on SQLite.

The race is no part of this repository. It brings the module ``common``: shapes of graphs, the meter, and the line that a runner prints.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from common import chain, main, parked, taking

from asterism.constellation.model.documents import LineSpec, PlanDocument
from asterism.constellation.model.task import TaskSpec
from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.runtime import Runtime
from asterism.loop.form import FORM
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.python import Handoff, LoopView, OrchestrationLoop, Worker
from asterism.loop.python.definition import open_performers
from asterism.stores.sqlite import SqliteStore
from benchmarks.engine import IDLE, open_runtime, run_plan, submit


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[SqliteStore]:
    """The store in a file, which is made if it is missing."""
    store = SqliteStore.open(path, create=not path.exists())  # noqa: ASYNC240 - before the clock starts
    try:
        yield store
    finally:
        await store.close()


def plan_of(shape: dict[str, tuple[str, ...]]) -> PlanDocument:
    """The plan of a shape: what each task waits for, by name."""
    return PlanDocument(
        tasks=tuple(TaskSpec(task_id=name, name="nothing", device="idle") for name in shape),
        dependencies=tuple(LineSpec(source=other, target=name) for name, before in shape.items() for other in before),
    )


def graph(shape: dict[str, tuple[str, ...]], copies: int, path: Path) -> Any:
    """So many runs of a shape at once."""

    async def measured() -> Any:
        plan = plan_of(shape)
        async with open_store(path) as store, open_runtime(store) as runtime:
            with taking(path) as taken:
                async with asyncio.TaskGroup() as group:
                    for _ in range(copies):
                        group.create_task(run_plan(runtime, plan))
            return taken

    return asyncio.run(measured())


def loop(steps: int, path: Path) -> Any:
    """A loop of so many steps, each reflected on."""

    async def planned(view: LoopView) -> list[dict[str, Any]]:
        return [{"worker": "idle", "intent": "nothing"} for _ in range(steps)]

    async def nothing(handoff: Handoff) -> None: ...

    async def goes_on(view: LoopView) -> str:
        return "continue"

    definition = OrchestrationLoop(plan=planned, workers={"idle": Worker(nothing, idempotent=True)}, reflect=goes_on)

    async def measured() -> Any:
        async with open_store(path) as store, open_performers() as performers:
            clock = SystemClock()
            driver = Driver(store=store, clock=clock, forms=by_name([FORM.performed_by(performers)]))
            async with driver.opened():
                runtime = Runtime(store, driver, clock)
                with taking(path) as taken, definition.here():
                    run = await runtime.submit(ORCHESTRATION_LOOP, definition.submitted("go"), title="a loop", actor="benchmark")
                    row = await runtime.drive(run)
        if row.outcome != "finished":
            raise RuntimeError(f"the loop ended {row.outcome or row.status}, so its time means nothing")
        return taken

    return asyncio.run(measured())


def crash(length: int, path: Path, log: Any) -> None:
    """A chain that is continued where a killed process left it; each begin goes to the log."""

    class Logging(Device):
        async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
            await signs.begun()
            log.began(int(attempt.task_id[1:]))
            return AttemptResult()

    async def driven() -> None:
        again = path.exists()  # noqa: ASYNC240 - nothing else runs yet
        async with open_store(path) as store, open_runtime(store, device=Logging(IDLE)) as runtime:
            runs = [row.run_id for row in await runtime.runs()] if again else []
            await runtime.drive(runs[0] if runs else await submit(runtime, plan_of(chain(length))))

    asyncio.run(driven())


def wait(count: int, path: Path) -> Any:
    """So many runs that wait for a person, and the answers to some of them."""
    plan = plan_of(chain(3))
    asking = msgspec.structs.replace(plan, tasks=(msgspec.structs.replace(plan.tasks[0], requires_approval=True), *plan.tasks[1:]))
    runs: dict[int, str] = {}

    async def measured() -> Any:
        async with open_store(path) as store, open_runtime(store) as runtime:

            async def park(number: int) -> None:
                runs[number] = await submit(runtime, asking)
                if (row := await runtime.drive(runs[number])).status != "waiting":
                    raise RuntimeError(f"the run is {row.status}, so its time means nothing")

            async def answer(number: int) -> None:
                (question,) = await runtime.store.inquiries(run_id=runs[number])
                await runtime.post_answer(question.inquiry_id, "approve", actor="benchmark")
                if (row := await runtime.drive(runs[number])).outcome != "finished":
                    raise RuntimeError(f"the run ended {row.outcome or row.status}, so its time means nothing")

            return await parked(count, path, park, answer)

    return asyncio.run(measured())


if __name__ == "__main__":
    main(graph=graph, loop=loop, crash=crash, wait=wait)
