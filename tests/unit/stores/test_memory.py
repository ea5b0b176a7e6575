"""Behaviour of the store in memory only: simulated deaths and faults."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from asterism.engine.kernel.journal import Record
from asterism.engine.ports.store import Commit, RunRow
from asterism.errors import StoreUnavailable
from asterism.stores.memory import MemoryStore

ROW = RunRow(run_id="r1", machine="m", title="t", state="START")
FIRST = Record(run_id="r1", seq=1, at=1.0, actor="ada", kind="Request", state="START", body="{}")
NEXT = Commit(run_id="r1", epoch=1, expected_seq=1, records=(msgspec.structs.replace(FIRST, seq=2),), state="CONTINUE", status="active")


def test_a_crashed_handle_does_nothing_more_and_its_runs_are_free() -> None:
    async def scenario() -> None:
        one = MemoryStore(name="driver")
        other = MemoryStore(one.memory, name="driver")
        await one.submit(ROW, FIRST)
        await one.acquire("r1", newest=0)
        assert (await other.run("r1")).owner == "driver 1"
        one.crash()
        with pytest.raises(StoreUnavailable, match="driver 1: it crashed"):
            await one.append(NEXT)
        await one.close()
        assert await other.acquire("r1", newest=0) == 2
        assert len(await other.records("r1")) == 1

    asyncio.run(scenario())


def test_a_fault_is_raised_before_anything_is_written() -> None:
    asked: list[str] = []

    def fail(operation: str) -> Exception | None:
        asked.append(operation)
        return StoreUnavailable("full") if asked.count("append") == 1 and operation == "append" else None

    async def scenario() -> None:
        store = MemoryStore(fail=fail)
        await store.submit(ROW, FIRST)
        await store.acquire("r1", newest=0)
        with pytest.raises(StoreUnavailable, match="full"):
            await store.append(NEXT)
        assert await store.records("r1") == [FIRST]
        await store.append(NEXT)
        assert len(await store.records("r1")) == 2

    asyncio.run(scenario())
    assert asked == ["submit", "claim", "append", "append"]


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
