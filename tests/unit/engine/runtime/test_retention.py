"""Retention: which runs a server deletes, how many at once, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from asterism.engine.kernel.journal import Record
from asterism.engine.ports.notices import Notice
from asterism.engine.ports.store import Commit, RunRow
from asterism.engine.runtime.clock import DAY_S
from asterism.engine.runtime.retention import FULL_ROUND_S, HELD_S, ROUND_S, RUNS_AT_ONCE, SWEEP_S, Retention
from asterism.stores.memory import MemoryStore
from asterism.testing.clock import WorldClock
from asterism.testing.loop import run
from tests.support.memory_stores import failing_store


class Storage:
    """Counts how often unused files are removed."""

    def __init__(self) -> None:
        self.sweeps = 0

    async def forget(self, roots: Sequence[str]) -> None:
        assert list(roots) == []
        self.sweeps += 1


def row(run_id: str, **more: Any) -> RunRow:
    return RunRow(run_id=run_id, machine="m", title="t", state="S", **more)


def record(run_id: str, seq: int = 1) -> Record:
    return Record(run_id=run_id, seq=seq, at=0.0, actor="me", kind="k", state="S", body="{}")


async def end(store: MemoryStore, run_id: str, at: float, *, parent: str = "", ends: bool = True) -> None:
    await store.submit(row(run_id, parent=parent, root=parent), record(run_id))
    epoch = await store.acquire(run_id, newest=0)
    changed: dict[str, Any] = {"status": "ended", "outcome": "finished"} if ends else {"status": "waiting"}
    commit = Commit(run_id=run_id, epoch=epoch, expected_seq=1, records=[record(run_id, 2)], state="S", updated_at=at, **changed)
    await store.append(commit)
    await store.release(run_id, epoch)


async def left(store: MemoryStore) -> set[str]:
    return {it.run_id for it in await store.runs(limit=1000)}


def test_only_runs_that_ended_long_ago_are_deleted_with_the_runs_below_them() -> None:
    async def main() -> None:
        store, clock, storage = MemoryStore(), WorldClock(), Storage()
        await asyncio.sleep(100 * DAY_S)
        now = clock.now()
        await end(store, "old", now - 91 * DAY_S)
        await end(store, "old.1", now - 91 * DAY_S, parent="old")
        await end(store, "young", now - 89 * DAY_S)
        await end(store, "open", now - 99 * DAY_S, ends=False)
        await end(store, "open.1", now - 99 * DAY_S, parent="open")
        await end(store, "owned", now - 99 * DAY_S)
        await store.acquire("owned", newest=0)
        await end(store, "new", now)
        assert await Retention(store, storage, clock, print, runs_s=90 * DAY_S).prune() == 1  # type: ignore[arg-type]
        assert await left(store) == {"young", "open", "open.1", "owned", "new"}
        assert storage.sweeps == 1

    run(main())


def test_without_a_limit_no_run_is_deleted_but_old_notices_and_unused_files_are() -> None:
    async def main() -> None:
        store, clock, storage = MemoryStore(), WorldClock(), Storage()
        await asyncio.sleep(100 * DAY_S)
        await end(store, "old", 0.0)
        for days in (31, 29):
            await store.add_notice(Notice(kind="device_lost", subject="gpu", at=clock.now() - days * DAY_S))
        assert await Retention(store, storage, clock, print, runs_s=None).prune() == 0  # type: ignore[arg-type]
        assert await left(store) == {"old"}
        assert [it.number for it in await store.unrouted_notices()] == [2]
        assert storage.sweeps == 1

    run(main())


class SetClock(WorldClock):
    """A clock that somebody sets."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s


def test_a_clock_that_jumps_ahead_deletes_nothing_for_a_day() -> None:
    async def main() -> None:
        store, clock, warned = MemoryStore(), SetClock(), list[str]()
        retention = Retention(store, None, clock, warned.append, runs_s=90 * DAY_S)
        await end(store, "run", clock.now())
        assert await retention.prune() == 0
        clock.ahead_s = 400 * DAY_S
        assert await retention.prune() == 0
        await end(store, "started_meanwhile", clock.now())
        await asyncio.sleep(HELD_S - 1.0)
        assert await retention.prune() == 0
        (problem,) = warned
        assert problem == "the clock has moved ahead by more than a day; nothing is deleted for 24 h: if the clock is wrong, correct it"
        clock.ahead_s = 0.0  # corrected
        await asyncio.sleep(2.0)
        assert await retention.prune() == 0
        assert await left(store) == {"run", "started_meanwhile"}

    run(main())


def test_a_server_that_finds_only_old_runs_waits_a_day_before_it_deletes_them() -> None:
    async def main() -> None:
        store, clock, warned = MemoryStore(), WorldClock(), list[str]()
        await end(store, "run", clock.now())
        await asyncio.sleep(91 * DAY_S)
        retention = Retention(store, None, clock, warned.append, runs_s=90 * DAY_S)
        assert await retention.prune() == 0
        await asyncio.sleep(HELD_S)
        assert await retention.prune() == 1
        assert [it.partition(";")[0] for it in warned] == ["by the clock, all runs are old enough to be deleted"]

    run(main())


def test_rounds_are_bounded_and_a_store_that_fails_is_tried_again() -> None:
    async def main() -> None:
        clock, failing = WorldClock(), False
        store = failing_store(lambda: failing)
        for number in range(RUNS_AT_ONCE + 5):
            await end(store, f"r{number}", float(number))
        await asyncio.sleep(2 * DAY_S)
        await end(store, "new", clock.now())
        warned: list[str] = []
        storage = Storage()
        retention = Retention(store, storage, clock, warned.append, runs_s=DAY_S)  # type: ignore[arg-type]
        async with asyncio.TaskGroup() as group:
            failing = True
            serving = group.create_task(retention.serve())
            await asyncio.sleep(1)
            (warning,) = warned
            assert "old runs are not deleted" in warning
            assert "the disk is full" in warning
            assert warning.endswith("; trying again in 60 s")
            failing = False
            await asyncio.sleep(ROUND_S - 0.5)
            assert len(await left(store)) == 1 + 5
            await asyncio.sleep(FULL_ROUND_S)
            assert await left(store) == {"new"}
            await asyncio.sleep(SWEEP_S)
            assert storage.sweeps == 2
            serving.cancel()
        assert len(warned) == 1

    run(main())
