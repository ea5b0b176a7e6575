from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time

import pytest
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from asterism.errors import InvalidInput
from asterism.testing.loop import Deadlock, Endless, SimLoop, run

TRACE_A_SCHEDULE = """
import asyncio
from asterism.testing.loop import run

trace = []

async def worker(number):
    try:
        for _ in range(3):
            trace.append(number)
            await asyncio.sleep(0)
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        trace.append(f"{number} cancelled")
        await asyncio.sleep(0)
        trace.append(asyncio.current_task().get_name())

async def fail():
    await asyncio.sleep(1)
    raise ValueError

async def main():
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(40):
                group.create_task(worker(number))
            group.create_task(fail())
    except* ValueError:
        trace.append("failed")

run(main(), 7)
print(trace)
"""


def schedule(seed: int, workers: int = 8) -> list[int]:
    trace: list[int] = []

    async def worker(number: int) -> None:
        for _ in range(3):
            trace.append(number)
            await asyncio.sleep(0)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(worker(number))

    run(main(), seed)
    return trace


def test_the_same_seed_gives_the_same_schedule() -> None:
    assert all(schedule(seed) == schedule(seed) for seed in range(20))


def test_different_seeds_give_different_schedules() -> None:
    assert len({tuple(schedule(seed)) for seed in range(50)}) == 50


def test_thousands_of_runnable_tasks_are_all_run() -> None:
    assert sorted(schedule(1, workers=3000)) == sorted(list(range(3000)) * 3)


def test_a_schedule_is_found_under_which_a_lost_update_shows() -> None:
    async def lose_an_update() -> int:
        value = 0

        async def increment(after: int) -> None:
            nonlocal value
            for _ in range(after):
                await asyncio.sleep(0)
            read = value
            await asyncio.sleep(0)
            value = read + 1

        async with asyncio.TaskGroup() as group:
            group.create_task(increment(0))
            group.create_task(increment(2))
        return value

    assert asyncio.run(lose_an_update()) == 2
    assert {run(lose_an_update(), seed) for seed in range(50)} == {1, 2}


def test_an_hour_passes_at_once_and_exactly() -> None:
    async def sleep() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    began = time.perf_counter()
    assert run(sleep()) == 3600
    assert time.perf_counter() - began < 60


def test_timers_fire_in_the_order_of_their_times() -> None:
    fired: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for delay in (0.3, 0.1, 100_000.0, 0.2):
            loop.call_later(delay, lambda: fired.append(loop.time()))
        await asyncio.sleep(200_000)

    run(main())
    assert fired == pytest.approx([0.1, 0.2, 0.3, 100_000.0])


def test_a_deadlock_names_who_waits_and_where() -> None:
    async def wait_for_nobody() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.sleep(5)
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_for_nobody(), name="the lonely one")

    with pytest.raises(
        Deadlock, match=r"(?s)at 5 s nothing .*main > TaskGroup.* the lonely one: .*wait_for_nobody > Event\.wait, line \d+"
    ):
        run(main())


def test_a_spinning_task_is_stopped() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110 - that is what is to be stopped
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=lambda: SimLoop(0, max_steps=1000)) as runner, pytest.raises(Endless, match="more than 1000 steps"):
        runner.run(spin())


def test_an_executor_works_on_the_spot() -> None:
    async def main() -> int:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 1, 0)
        return await asyncio.get_running_loop().run_in_executor(None, len, "four")

    assert run(main()) == 4


def test_a_plain_function_that_pydantic_ai_calls_works_on_the_spot() -> None:
    def reply(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(threading.current_thread().name)])

    answer = run(model_request(FunctionModel(reply), [ModelRequest(parts=[UserPromptPart("who are you?")])]))
    assert answer.text == threading.current_thread().name


def test_what_the_coroutine_raises_comes_out() -> None:
    async def main() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(main())


def test_tasks_are_named_by_their_number_in_their_loop() -> None:
    async def main() -> list[str]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0)), group.create_task(asyncio.sleep(0), name="own name")]
        return [task.get_name() for task in tasks]

    assert run(main()) == ["Task-2", "own name"]
    assert run(main()) == ["Task-2", "own name"]


def test_a_schedule_is_the_same_in_another_process_under_another_hash_seed() -> None:
    def trace(hash_seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", TRACE_A_SCHEDULE],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout

    first = trace("1")
    assert "39 cancelled" in first
    assert "failed" in first
    assert trace("2") == first
    assert trace("3") == first


def test_a_world_within_a_running_event_loop_is_refused_and_runs_in_a_thread() -> None:
    async def scene() -> None:
        with pytest.raises(
            InvalidInput, match=r"an event loop of its own, .*; run it in a thread: await asyncio\.to_thread\(world\.run, plan\)"
        ):
            run(asyncio.sleep(1))
        assert await asyncio.to_thread(run, asyncio.sleep(1, "slept")) == "slept"

    asyncio.run(scene())
