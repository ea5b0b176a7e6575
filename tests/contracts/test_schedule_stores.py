"""Contract of the schedules of stores, on each of them."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from asterism.engine.ports.schedules import Firing, FiringStatus, Schedule
from asterism.engine.ports.store import RunRow
from asterism.errors import InvalidInput
from asterism.stores import sqlite_schedules
from tests.contracts.test_stores import Play, World, play, record

__all__ = ["play"]

NIGHTLY = Schedule(
    name="nightly",
    cron="0 2 * * *",
    zone="Europe/Berlin",
    what="nightly.py:nightly",
    params={"region": "eu"},
    options={"max_cost_usd": 2.0},
    next_at=100.0,
    created_at=1.0,
    actor="ada",
)


def firing(due_at: float, status: FiringStatus = "due", *, tenant: str = "", schedule: str = "nightly") -> Firing:
    return Firing(tenant=tenant, schedule=schedule, due_at=due_at, run_id=f"run-{due_at}", status=status, actor="ada")


def test_a_schedule_is_found_by_tenant_name_and_due_time(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        other = msgspec.structs.replace(NIGHTLY, tenant="b", next_at=300.0)
        paused = msgspec.structs.replace(NIGHTLY, name="paused", paused=True, missed="skip", overlap="allow")
        for row in (paused, other, NIGHTLY):
            await store.add_schedule(row)
        second = await world.open()
        assert await second.schedules() == [NIGHTLY, paused, other]
        assert await second.schedules("b") == [other]
        assert await second.schedules("", name="paused") == [paused]
        assert await second.schedules(due_by=99.9) == []
        assert await second.schedules(due_by=100.0) == [NIGHTLY]
        assert await second.schedules(due_by=1e9) == [NIGHTLY, other]
        with pytest.raises(InvalidInput, match="there is a schedule 'nightly' already"):
            await second.add_schedule(NIGHTLY)

    play(scenario)


def test_of_two_processes_that_replace_a_schedule_one_does(play: Play) -> None:
    async def scenario(world: World) -> None:
        first, second = await world.open(), await world.open()
        await first.add_schedule(NIGHTLY)
        after = msgspec.structs.replace(NIGHTLY, next_at=200.0)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(store.replace_schedule(after, before=NIGHTLY, firings=[firing(100.0)])) for store in (first, second)]
        assert sorted(task.result() for task in tasks) == [False, True]
        assert await first.schedules() == [after]
        assert await second.firings() == [firing(100.0)]

    play(scenario)


def test_a_firing_is_settled_once(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.add_schedule(NIGHTLY)
        assert await store.replace_schedule(NIGHTLY, before=NIGHTLY, firings=[firing(100.0), firing(200.0)])
        assert await store.replace_schedule(NIGHTLY, before=NIGHTLY, firings=[firing(100.0, "skipped")])
        assert await store.firings(status="due") == [firing(200.0), firing(100.0)]
        await store.settle_firing(firing(100.0, "started"))
        await store.settle_firing(firing(100.0, "failed"))
        await store.settle_firing(firing(300.0, "started"))
        assert await store.firings("", "nightly") == [firing(200.0), firing(100.0, "started")]
        assert await store.firings(status="started") == [firing(100.0, "started")]
        assert await store.firings(limit=1) == [firing(200.0)]
        assert await store.firings("b") == await store.firings("", "weekly") == []

    play(scenario)


def test_a_removed_schedule_is_gone_with_its_firings_and_no_others(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        other = msgspec.structs.replace(NIGHTLY, tenant="b")
        for row in (NIGHTLY, other):
            await store.add_schedule(row)
            await store.replace_schedule(row, before=row, firings=[firing(100.0, tenant=row.tenant)])
        assert await store.remove_schedule("", "nightly")
        assert not await store.remove_schedule("", "nightly")
        assert await store.schedules() == [other]
        assert await store.firings() == [firing(100.0, tenant="b")]
        assert not await store.replace_schedule(NIGHTLY, before=NIGHTLY, firings=[firing(200.0)])
        assert len(await store.firings()) == 1

    play(scenario)


def test_old_firings_are_dropped_but_for_the_last_that_started_a_run(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_schedules, "MAX_FIRINGS", 5)

    async def scenario(world: World) -> None:
        store = await world.open()
        await store.add_schedule(NIGHTLY)
        await store.replace_schedule(NIGHTLY, before=NIGHTLY, firings=[firing(1.0, "started"), firing(2.0, "started"), firing(3.0)])
        for at in range(4, 14):
            await store.replace_schedule(NIGHTLY, before=NIGHTLY, firings=[firing(float(at), "skipped")])
        found = await store.firings()
        assert [it.due_at for it in found if it.status == "started"] == [2.0]
        assert [it.due_at for it in found if it.status == "due"] == [3.0]
        assert 13.0 in {it.due_at for it in found}

    play(scenario)


def test_the_last_settled_firing_of_each_schedule_has_the_outcome_of_its_run(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        other = msgspec.structs.replace(NIGHTLY, tenant="b")
        new = msgspec.structs.replace(NIGHTLY, name="new")
        for schedule in (NIGHTLY, other, new):
            await store.add_schedule(schedule)
        await store.replace_schedule(NIGHTLY, before=NIGHTLY, firings=[firing(100.0, "failed"), firing(200.0, "started"), firing(300.0)])
        await store.replace_schedule(other, before=other, firings=[firing(100.0, "started", tenant="b"), firing(50.0, tenant="b")])
        ended = RunRow(run_id="run-200.0", machine="m", title="t", state="S", status="ended", outcome="failed")
        await store.submit(ended, record("run-200.0"))
        nightly, foreign = await store.last_firings()
        assert (nightly.tenant, nightly.due_at, nightly.status, nightly.outcome) == ("", 200.0, "started", "failed")
        assert (foreign.tenant, foreign.due_at, foreign.run_id, foreign.outcome) == ("b", 100.0, "run-100.0", "")
        assert await store.last_firings("b") == [foreign]
        assert await store.last_firings("c") == []

    play(scenario)
