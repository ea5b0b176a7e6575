"""The scheduler over a store: each due time starts one run, whichever process dies when."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import msgspec

from asterism.engine.ports.schedules import Firing, Schedule
from asterism.engine.runtime.database_status import read_status
from asterism.errors import InvalidInput, StoreUnavailable
from asterism.service.schedules.scheduler import Scheduler
from asterism.stores.memory import MemoryDatabase, MemoryStore
from tests.contracts.test_stores import commit, record, row
from tests.support.memory_stores import failing_store
from tests.unit.service.schedules.test_firing import HOURLY


class Hand:
    """A clock that is set by hand."""

    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def new_id(self) -> str:
        raise AssertionError


def submitting(store: MemoryStore, begun: list[str], problem: str = "") -> Callable[[Schedule, Firing], Awaitable[None]]:
    async def start(schedule: Schedule, firing: Firing) -> None:
        begun.append(firing.run_id)
        if problem:
            raise InvalidInput(problem)
        await store.submit(row(firing.run_id), record(firing.run_id))

    return start


async def end(store: MemoryStore, run_id: str) -> None:
    epoch = await store.acquire(run_id, newest=99)
    await store.append(msgspec.structs.replace(commit(run_id, epoch=epoch), status="ended"))
    await store.release(run_id, epoch, force=True)


def test_each_due_time_starts_one_run() -> None:
    async def scenario() -> None:
        store, begun = MemoryStore(), list[str]()
        clock = Hand(HOURLY.next_at)
        scheduler = Scheduler(store, clock, submitting(store, begun))
        await store.add_schedule(HOURLY)
        for _ in range(3):
            await scheduler.start_due()
        assert len(begun) == 1
        clock.at += 3600
        await scheduler.start_due()
        assert [it.status for it in await store.firings()] == ["skipped", "started"]
        await end(store, begun[0])
        clock.at += 3600
        await scheduler.start_due()
        assert [it.status for it in await store.firings()] == ["started", "skipped", "started"]
        assert len(set(begun)) == len(begun) == len(await store.runs()) == 2

    asyncio.run(scenario())


def test_a_kill_at_any_operation_neither_loses_nor_doubles_a_run() -> None:
    """The process is killed before and after each write, and another one goes on."""

    async def scenario(stop_at: int, *, before: bool) -> bool:
        database, begun, writes = MemoryDatabase(), list[str](), itertools.count()
        clock, is_dead = Hand(HOURLY.next_at), False

        def fails() -> bool:
            nonlocal is_dead
            is_dead = is_dead or next(writes) == stop_at
            return is_dead

        await MemoryStore(database).add_schedule(HOURLY)
        victim = failing_store(fails, database)
        try:
            await Scheduler(victim, clock, submitting(victim if before else MemoryStore(database), begun)).start_due()
        except StoreUnavailable:
            assert is_dead
        survivor = MemoryStore(database)
        for _ in range(2):
            await Scheduler(survivor, clock, submitting(survivor, begun)).start_due()
        assert len(await survivor.runs()) == 1
        assert [it.status for it in await survivor.firings()] == ["started"]
        return is_dead

    for before in (True, False):
        deaths = [asyncio.run(scenario(stop_at, before=before)) for stop_at in range(5)]
        assert deaths[:2] == [True, True]
        assert not deaths[-1]


def test_two_servers_start_one_run() -> None:
    async def scenario() -> None:
        database, begun, clock = MemoryDatabase(), list[str](), Hand(HOURLY.next_at)
        await MemoryStore(database).add_schedule(HOURLY)

        async def serve() -> None:
            store = MemoryStore(database)
            await Scheduler(store, clock, submitting(store, begun)).start_due()

        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(serve())
        assert len(database.runs) == 1
        assert [it.status for it in await MemoryStore(database).firings()] == ["started"]

    asyncio.run(scenario())


def test_a_clock_that_was_ahead_delays_no_due_time_and_repeats_none() -> None:
    async def scenario(*, restarted: bool) -> None:
        store, begun, clock = MemoryStore(), list[str](), Hand(HOURLY.next_at)
        scheduler = Scheduler(store, clock, submitting(store, begun))
        await store.add_schedule(msgspec.structs.replace(HOURLY, overlap="allow"))
        await scheduler.start_due()
        clock.at += 1e8
        await scheduler.start_due()
        assert len(begun) == 2
        clock.at = HOURLY.next_at - 1  # the time that was right, a second before the due time that has had its run
        if restarted:
            scheduler = Scheduler(store, clock, submitting(store, begun))
        for _ in range(3):
            await scheduler.start_due()
            clock.at += 1
        assert len(begun) == 2
        clock.at = HOURLY.next_at + 7200  # the one before was recorded as missed, while the clock was ahead
        await scheduler.start_due()
        assert len(begun) == len(set(begun)) == 3

    for restarted in (True, False):
        asyncio.run(scenario(restarted=restarted))


def test_what_cannot_be_started_is_recorded_with_its_reason_and_the_next_time_is_tried() -> None:
    async def scenario() -> None:
        store, begun, clock = MemoryStore(), list[str](), Hand(HOURLY.next_at)
        await store.add_schedule(HOURLY)
        await Scheduler(store, clock, submitting(store, begun, "a.yaml: there is no such file")).start_due()
        (firing,) = await store.firings()
        assert (firing.status, firing.run_id, firing.reason) == ("failed", "", "a.yaml: there is no such file")
        clock.at += 3600
        await Scheduler(store, clock, submitting(store, begun)).start_due()
        assert [it.status for it in await store.firings()] == ["started", "failed"]

    asyncio.run(scenario())


def test_a_run_that_cannot_be_started_is_logged_each_time_and_noted_until_one_is_started() -> None:
    async def scenario() -> None:
        store, clock, lines = MemoryStore(), Hand(HOURLY.next_at), list[str]()
        await store.add_schedule(HOURLY)
        for problem, noted in (("", 0), ("no file", 1), ("no file", 1), ("", 1), ("no folder", 2)):
            await Scheduler(store, clock, submitting(store, [], problem), lines.append).start_due()
            assert len(await store.unrouted_notices()) == noted
            for it in await store.runs():
                if it.status != "ended":
                    await end(store, it.run_id)
            clock.at += 3600
        assert lines == [f"schedule hourly could not start its run: no {it}" for it in ("file", "file", "folder")]
        notices = await store.unrouted_notices()
        assert [(it.kind, it.subject, it.text) for it in notices] == [("not_started", "hourly", f"no {it}") for it in ("file", "folder")]
        (listed,) = (await read_status(store, clock.at)).schedules
        assert (listed.name, listed.problem) == ("hourly", "no folder")

    asyncio.run(scenario())


def test_a_schedule_whose_time_zone_is_gone_is_paused_and_the_others_go_on() -> None:
    async def scenario() -> None:
        store, begun, clock = MemoryStore(), list[str](), Hand(HOURLY.next_at)
        await store.add_schedule(HOURLY)
        await store.add_schedule(msgspec.structs.replace(HOURLY, name="a-broken", zone="Europe/Atlantis"))
        await Scheduler(store, clock, submitting(store, begun)).start_due()
        assert [(it.schedule, it.status) for it in await store.firings()] == [("a-broken", "failed"), ("hourly", "started")]
        (broken,) = await store.schedules(name="a-broken")
        assert broken.paused
        assert [(it.kind, it.subject) for it in await store.unrouted_notices()] == [("not_started", "a-broken")]

    asyncio.run(scenario())


def test_a_removed_schedule_starts_nothing() -> None:
    async def scenario() -> None:
        store, begun, clock = MemoryStore(), list[str](), Hand(HOURLY.next_at)
        await store.add_schedule(HOURLY)
        await store.remove_schedule("", HOURLY.name)
        await Scheduler(store, clock, submitting(store, begun)).start_due()
        assert begun == []

    asyncio.run(scenario())


def test_a_plan_that_takes_long_to_read_delays_no_due_time_and_no_other_run() -> None:
    async def scenario() -> None:
        store, begun = MemoryStore(), list[str]()
        clock = Hand(HOURLY.next_at)
        slow, quick = (msgspec.structs.replace(HOURLY, name=name, overlap="allow") for name in ("slow", "quick"))
        hangs, start = asyncio.Event(), submitting(store, begun)

        async def starting(schedule: Schedule, firing: Firing) -> None:
            if schedule.name == "slow":
                await hangs.wait()
            await start(schedule, firing)

        for schedule in (slow, quick):
            await store.add_schedule(schedule)
        serving = asyncio.create_task(Scheduler(store, clock, starting).serve())
        while not begun:  # noqa: ASYNC110 - the store has no event for it
            await asyncio.sleep(0.01)
        clock.at += 3600
        while len(await store.firings()) < 4:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        assert {it.status for it in await store.firings(schedule="slow")} == {"due"}
        hangs.set()
        while len(begun) < 4:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        serving.cancel()
        assert sorted(name.partition("-")[0] for name in begun) == ["quick", "quick", "slow", "slow"]

    asyncio.run(scenario())


def test_the_oldest_due_times_start_first() -> None:
    async def scenario() -> None:
        store, begun = MemoryStore(), list[str]()
        clock = Hand(HOURLY.next_at)
        await store.add_schedule(msgspec.structs.replace(HOURLY, overlap="allow"))
        scheduler = Scheduler(store, clock, submitting(store, begun))
        for _ in range(3):
            await scheduler.record_due()
            clock.at += 3600
        await scheduler.start_recorded()
        assert begun == sorted(begun)
        assert len(begun) == 3

    asyncio.run(scenario())
