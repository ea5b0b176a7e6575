"""Work in a task of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from asterism.engine.runtime.task_group import in_own_task


async def refused() -> str:
    raise OSError("refused")


async def refused_in_a_group() -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(refused())
    return "never"


async def answers() -> str:
    return "yes"


async def answers_when_cancelled() -> str:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.get_running_loop().create_future()
    return "yes"


async def refused_when_cancelled() -> str:
    await answers_when_cancelled()
    raise OSError("refused")


def test_work_returns_its_result() -> None:
    assert asyncio.run(in_own_task(answers)) == "yes"


def test_an_error_of_work_is_raised_as_it_is_however_often_one_came_before() -> None:
    async def scenario() -> None:
        for _ in range(2):
            with pytest.raises(OSError, match=r"^refused$"):
                await in_own_task(refused)
            with pytest.raises(ExceptionGroup):
                await in_own_task(refused_in_a_group)

    asyncio.run(scenario())


@pytest.mark.parametrize("work", [answers_when_cancelled, refused_when_cancelled])
@pytest.mark.parametrize("turns", range(1, 5))
def test_a_cancel_comes_before_the_result_and_the_error_of_work(work: Callable[[], Awaitable[str]], turns: int) -> None:
    async def scenario() -> None:
        doing = asyncio.create_task(in_own_task(work))
        for _ in range(turns):
            await asyncio.sleep(0)
        doing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doing

    asyncio.run(scenario())


def test_work_that_is_cancelled_before_it_begins_is_not_called() -> None:
    called: list[str] = []

    async def works() -> None:
        called.append("works")

    async def scenario() -> None:
        doing = asyncio.create_task(in_own_task(works))
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:  # as at the end of asyncio.run
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doing

    asyncio.run(scenario())
    assert not called
