"""Where something runs that names no runtime."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asterism
from asterism.engine.runtime.runtime import CURRENT, Runtime, current_runtime
from asterism.stores.memory import MemoryStore


async def at_hand(given: Runtime | None = None) -> Runtime:
    async with current_runtime(given) as runtime:
        return runtime


def test_the_opened_runtime_is_current_within_its_context_and_not_after(tmp_path: Path) -> None:
    async def scene() -> None:
        async with asterism.open(tmp_path / "runs.db") as opened:
            assert await at_hand() is opened
            assert CURRENT.get() is opened
        assert CURRENT.get() is None
        assert isinstance((await at_hand()).store, MemoryStore)  # the default of the tests

    asyncio.run(scene())
    assert (tmp_path / "runs.db").exists()


def test_a_runtime_that_is_given_goes_before_the_opened_one(tmp_path: Path) -> None:
    async def scene() -> None:
        given = await at_hand()
        async with asterism.open(tmp_path / "runs.db"):
            assert await at_hand(given) is given

    asyncio.run(scene())


def test_a_nested_runtime_is_current_until_it_is_closed(tmp_path: Path) -> None:
    async def scene() -> None:
        async with asterism.open(tmp_path / "a.db") as outer:
            async with asterism.open(tmp_path / "b.db") as inner:
                assert await at_hand() is inner
            assert await at_hand() is outer

    asyncio.run(scene())
