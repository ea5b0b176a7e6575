"""The timer of a run that waits for a time: kept while it is right, and set again when the wall clock was set."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asterism.engine.control import BatchEnded, StepContext, Unpause
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import Form, by_name
from asterism.engine.runtime.runtime import Runtime
from asterism.engine.runtime.wakeup_timer import LONGEST_WAIT_S
from asterism.stores.memory import MemoryStore
from asterism.testing.clock import EPOCH, WorldClock
from asterism.testing.loop import run
from tests.support.errand_machine import Basket, Buy, Leave, Shop, State, errand

WAKE_S = 1000.0


class Asleep(Basket, kw_only=True):
    def wake_at(self) -> float | None:
        return None if self.code else EPOCH + WAKE_S


def wake(memory: Asleep, event: BatchEnded, context: StepContext) -> State | None:
    if context.at < EPOCH + WAKE_S:
        return None
    memory.code = "finished"
    return State.DONE


class SetClock(WorldClock):
    """A wall clock that somebody sets."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s


def slept(step_s: float, *, events: int = 1, right_after_s: float | None = None) -> tuple[float, int]:
    """How long a run sleeps of which the clock is set after 10 s, and how many timers it has set; then it has ``events``.

    The clock is right again ``right_after_s`` later, and nothing else happens then.
    """
    clock, machine, store, timers = SetClock(), errand(back=wake, memory=Asleep), MemoryStore(), []

    async def main() -> float:
        loop = asyncio.get_running_loop()
        call_at = loop.call_at

        def counted(when: float, callback: Any, *args: Any, **more: Any) -> asyncio.TimerHandle:
            if "WakeupTimer._look" in repr(callback):
                timers.append(when)
            return call_at(when, callback, *args, **more)

        loop.call_at = counted  # type: ignore[method-assign,assignment]
        driver = Driver(store=store, clock=clock, forms=by_name([Form(machine, {Buy: Shop()})]))
        async with driver.opened(), asyncio.timeout(10 * WAKE_S):
            runtime = Runtime(store, driver, clock)
            await runtime.submit(machine, Leave(), title="an errand", actor="ann", run_id="r")
            driving = asyncio.ensure_future(runtime.drive("r"))
            await asyncio.sleep(10)
            clock.ahead_s = step_s
            for number in range(events):
                await runtime.post("r", Unpause(), actor="ann", key=f"k{number}")
                await asyncio.sleep(1)
            if right_after_s is not None:
                await asyncio.sleep(right_after_s)
                clock.ahead_s = 0.0
            assert (await driving).outcome == "finished"
            return loop.time()

    return run(main()), len(timers)


@pytest.mark.parametrize("step_s", [900.0, 0.2, -0.2, -500.0])
def test_a_run_wakes_by_the_wall_clock_though_it_was_set(step_s: float) -> None:
    lasted, _ = slept(step_s)
    assert lasted == pytest.approx(WAKE_S - step_s, abs=0.06)


def test_a_timer_that_is_right_is_kept() -> None:
    lasted, timers = slept(0.0, events=50)
    assert lasted == pytest.approx(WAKE_S, abs=0.06)
    assert timers <= WAKE_S / LONGEST_WAIT_S + 2


@pytest.mark.parametrize("step_s", [-500.0, -5000.0])
def test_a_run_wakes_at_its_time_after_a_clock_that_was_behind_is_right_again(step_s: float) -> None:
    """H8: nothing else happens to the run when the clock is corrected, as after the backoff of a retry."""
    lasted, _ = slept(step_s, right_after_s=100.0)
    assert lasted == pytest.approx(WAKE_S, abs=LONGEST_WAIT_S)
