"""Behaviour of the store in memory only: simulated deaths and faults, and several threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from asterism.engine.kernel.journal import Record
from asterism.engine.ports.store import Commit, RunRow
from asterism.errors import StoreUnavailable
from asterism.stores.memory import MemoryDatabase, MemoryStore
from tests.support.memory_stores import failing_store

ROW = RunRow(run_id="r1", machine="m", title="t", state="START")
FIRST = Record(run_id="r1", seq=1, at=1.0, actor="ada", kind="Request", state="START", body="{}")
NEXT = Commit(run_id="r1", epoch=1, expected_seq=1, records=(msgspec.structs.replace(FIRST, seq=2),), state="CONTINUE", status="active")


def test_a_crashed_handle_does_nothing_more_and_its_runs_are_free() -> None:
    async def scenario() -> None:
        one = MemoryStore(name="driver")
        other = MemoryStore(one.database, name="driver")
        await one.submit(ROW, FIRST)
        await one.acquire("r1", newest=0)
        assert (await other.run("r1")).owner == "driver 1"
        one.crash()
        with pytest.raises(StoreUnavailable, match="its process has crashed"):
            await one.append(NEXT)
        await one.close()
        assert await other.acquire("r1", newest=0) == 2
        assert len(await other.records("r1")) == 1

    asyncio.run(scenario())


def test_a_commit_that_fails_has_written_nothing_and_may_be_repeated() -> None:
    asked: list[bool] = []

    def fails() -> bool:
        asked.append(len(asked) == 2)
        return asked[-1]

    async def scenario() -> None:
        store = failing_store(fails)
        await store.submit(ROW, FIRST)
        await store.acquire("r1", newest=0)
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await store.append(NEXT)
        assert await store.records("r1") == [FIRST]
        await store.append(NEXT)
        assert len(await store.records("r1")) == 2

    asyncio.run(scenario())
    assert asked == [False, False, True, False]


def test_a_cancelled_append_was_not_done() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await store.submit(ROW, FIRST)
        await store.acquire("r1", newest=0)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(store.append(NEXT))
            await asyncio.sleep(0)
            task.cancel()
        assert await store.records("r1") == [FIRST]

    asyncio.run(scenario())


def test_threads_share_a_database_in_memory() -> None:
    database, number = MemoryDatabase(), 40

    async def submit(thread: int) -> None:
        store = MemoryStore(database)
        for run in (f"{thread}-{count}" for count in range(number)):
            await store.submit(msgspec.structs.replace(ROW, run_id=run), msgspec.structs.replace(FIRST, run_id=run))
        await store.close()

    with ThreadPoolExecutor(4) as threads:
        for ended in [threads.submit(asyncio.run, submit(thread)) for thread in range(4)]:
            ended.result()
    assert len(database.runs) == len(database.records) == 4 * number
