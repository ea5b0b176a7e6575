"""A run that is driven in the background while the driver is open, whether or not a caller waits."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from asterism.engine.kernel.run import Run
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.driver import MAX_WARM_RUNS, Driver
from asterism.errors import InvalidInput, RunNotFound
from asterism.stores.memory import MemoryStore
from tests.support.errand_machine import Basket, Leave, errand, in_memory, stays_out


def test_an_error_reaches_the_waiting_caller_and_ends_no_other_run() -> None:
    async def main() -> None:
        driver = Driver(store=MemoryStore(), clock=SystemClock(), forms={})
        with pytest.raises(InvalidInput, match="is closed"):
            await driver.start("nobody")
        async with driver.opened():
            unheard = driver.start("nobody")
            with pytest.raises(RunNotFound):
                await driver.start("nobody")
            assert isinstance(unheard.exception(), RunNotFound)

    asyncio.run(main())


def alive(kind: type[Any]) -> list[Any]:
    """Return the objects of a class that are still referenced."""
    gc.collect()
    return [it for it in gc.get_objects() if isinstance(it, kind)]


def test_a_run_that_was_driven_in_the_background_leaves_no_task_behind() -> None:
    async def main() -> None:
        driver = Driver(store=MemoryStore(), clock=SystemClock(), forms={})
        async with driver.opened():
            with pytest.raises(RunNotFound):
                await driver.start("nobody")
            await asyncio.sleep(0)
            assert [task.get_name() for task in alive(asyncio.Task) if task.get_name() == "drives nobody"] == []

    asyncio.run(main())


class Waiting(Basket, kw_only=True):
    def wake_at(self) -> float | None:
        return 1e12


def test_who_waits_for_a_run_is_cancelled_when_the_driver_closes() -> None:
    async def main() -> bool:
        machine = errand(leave=stays_out, memory=Waiting)
        async with in_memory(machine) as runtime:
            await runtime.submit(machine, Leave(), title="an errand", actor="ann", run_id="r")
            end = runtime.driver.start("r")
            await asyncio.wait([asyncio.ensure_future(end)], timeout=0.05)
        return end.cancelled()

    assert asyncio.run(main())


def test_of_the_runs_that_were_submitted_and_not_driven_a_bounded_number_is_remembered() -> None:
    async def main() -> int:
        machine = errand(leave=stays_out)
        async with in_memory(machine) as runtime:
            for number in range(MAX_WARM_RUNS + 10):
                await runtime.submit(machine, Leave(), title="an errand", actor="ann", run_id=f"r{number}")
            return len([run for run in alive(Run) if run.machine is machine])

    assert asyncio.run(main()) == MAX_WARM_RUNS
