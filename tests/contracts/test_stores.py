"""Contract of stores, tested on each of them. A new store joins by a ``World`` in ``WORLDS``."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.permissions import Permission
from asterism.engine.kernel.snapshot import Snapshot
from asterism.engine.ports.store import Commit, InboxRow, InquiryRow, RunRow, RunStatus, Store
from asterism.errors import InvalidInput, Refused, RunNewer, RunNotFound, RunOwned, StaleOwner
from asterism.stores.memory import MemoryDatabase, MemoryStore
from asterism.stores.sqlite import SqliteStore


class World(Protocol):
    """One database, and processes that open it."""

    async def open(self) -> Store:
        """A store, as another process would open it."""
        ...

    async def kill(self, store: Store) -> None:
        """End that process, its runs unreleased."""
        ...


class MemoryWorld:
    def __init__(self, _folder: Path) -> None:
        self._database = MemoryDatabase()

    async def open(self) -> Store:
        return MemoryStore(self._database)

    async def kill(self, store: Store) -> None:
        assert isinstance(store, MemoryStore)
        store.crash()


class SqliteWorld:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "runs.db"

    async def open(self) -> Store:
        return SqliteStore.open(self._path, create=True)

    async def kill(self, store: Store) -> None:
        # A death as others see it: the lock is gone, the row has not changed. Real kills are below.
        await store.close()


WORLDS: dict[str, Callable[[Path], World]] = {"memory": MemoryWorld, "sqlite": SqliteWorld}

Scenario = Callable[[World], Awaitable[None]]
Play = Callable[[Scenario], None]


class Closing:
    """A world whose stores are closed at the end, whatever happens."""

    def __init__(self, world: World, stack: AsyncExitStack) -> None:
        self._world = world
        self._stack = stack
        self.kill = world.kill

    async def open(self) -> Store:
        store = await self._world.open()
        self._stack.push_async_callback(store.close)
        return store


@pytest.fixture(params=sorted(WORLDS))
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    world = WORLDS[request.param](tmp_path)

    async def whole(scenario: Scenario) -> None:
        async with AsyncExitStack() as stack:
            await scenario(Closing(world, stack))

    return lambda scenario: asyncio.run(whole(scenario))


def row(run_id: str = "r1", *, created_at: float = 100.0, status: RunStatus = "active") -> RunRow:
    return RunRow(
        run_id=run_id,
        machine="constellation",
        title="count the files — ja",
        state="START",
        status=status,
        session="s1",
        parent="p0",
        tenant="t",
        actor="ada",
        created_at=created_at,
        updated_at=created_at,
        due_at=created_at,
    )


def record(run_id: str = "r1", seq: int = 1) -> Record:
    body = '{"event": {"text": "größer"}, "effects": []}'
    return Record(
        run_id=run_id, seq=seq, at=100.5 + seq, actor="ada", kind="Request", state="START", body=body, key=f"k{seq}", note="n", version=1
    )


def commit(run_id: str = "r1", *, epoch: int = 1, after: int = 1, count: int = 1) -> Commit:
    records = tuple(record(run_id, after + number) for number in range(1, count + 1))
    return Commit(run_id=run_id, epoch=epoch, expected_seq=after, records=records, state="CONTINUE", status="active", updated_at=200.0)


def inquiry(name: str = "r1:2.0", run_id: str = "r1") -> InquiryRow:
    return InquiryRow(
        inquiry_id=name,
        run_id=run_id,
        question="Deploy?",
        verbs=("approve", "reject"),
        subject='{"a": 1}',
        schema="{}",
        risk="high",
        asked_at=150.0,
        expires_at=900.0,
    )


def letter(key: str = "c1", run_id: str = "r1", *, body: str = "{}", actor: str = "ada") -> InboxRow:
    may = (Permission.VIEW, Permission.ANSWER)
    return InboxRow(run_id=run_id, key=key, actor=actor, kind="cancel", body=body, at=120.0, permissions=may)


def with_(base: Commit, **changes: object) -> Commit:
    return msgspec.structs.replace(base, **changes)


# -- submitting and reading --------------------------------------------------------------------------


def test_a_submitted_run_reads_back_with_its_first_record_and_without_an_owner(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(msgspec.structs.replace(row(), epoch=7, seq=7, owner="me"), record())
        assert await store.run("r1") == msgspec.structs.replace(row(), root="r1", epoch=0, seq=1, owner="", due_at=100.0)
        assert await store.records("r1") == [record()]

    play(scenario)


def test_a_duplicate_run_is_rejected_and_changes_nothing(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        with pytest.raises(InvalidInput, match="'r1' already"):
            await store.submit(row(created_at=999.0), msgspec.structs.replace(record(), body="[]"))
        assert (await store.run("r1")).created_at == 100.0
        assert await store.records("r1") == [record()]

    play(scenario)


def test_a_first_record_that_is_not_the_first_of_that_run_is_a_mistake(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        for wrong in (record(seq=2), record("r2")):
            with pytest.raises(ValueError, match="where r1#1 belongs"):
                await store.submit(row(), wrong)
        assert await store.runs() == []

    play(scenario)


def test_a_missing_run_is_reported_as_missing(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        for ask in (store.run("nope"), store.acquire("nope", newest=0), store.send(letter(run_id="nope"))):
            with pytest.raises(RunNotFound, match="nope"):
                await ask
        assert await store.records("nope") == []
        assert await store.inbox(["nope"]) == []
        assert await store.verdict("nope", "c1") == ""
        assert await store.inquiries(run_id="nope") == []
        assert await store.release("nope", 1)
        with pytest.raises(StaleOwner):
            await store.append(commit("nope"))

    play(scenario)


def test_runs_are_listed_newest_first_by_status_and_up_to_the_limit(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row("a", created_at=3.0), record("a"))
        await store.submit(row("b", created_at=1.0, status="waiting"), record("b"))
        await store.submit(row("c", created_at=2.0), record("c"))
        await store.submit(row("d", created_at=2.0), record("d"))
        assert [run.run_id for run in await store.runs()] == ["a", "d", "c", "b"]
        assert [run.run_id for run in await store.runs(limit=2)] == ["a", "d"]
        assert [run.run_id for run in await store.runs(status="waiting")] == ["b"]
        assert await store.runs(status="ended") == []
        assert len(await store.runs(limit=10**30)) == 4

    play(scenario)


def test_records_come_in_order_and_page_by_page(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        epoch = await store.acquire("r1", newest=0)
        await store.append(commit(epoch=epoch, count=9))
        assert [it.seq for it in await store.records("r1")] == list(range(1, 11))
        assert [it.seq for it in await store.records("r1", after=3, limit=4)] == [4, 5, 6, 7]
        assert [it.seq for it in await store.records("r1", after=7, limit=4)] == [8, 9, 10]
        assert await store.records("r1", after=10) == []
        assert await store.records("r1", limit=0) == []
        assert await store.records("r1", after=10**30) == []
        assert len(await store.records("r1", limit=10**30)) == 10

    play(scenario)


def test_what_was_written_is_there_after_reopening(play: Play) -> None:
    async def scenario(world: World) -> None:
        first = await world.open()
        await first.submit(row(), record())
        await first.append(with_(commit(epoch=await first.acquire("r1", newest=0)), opened=(inquiry(),)))
        await first.send(letter())
        await first.close()
        second = await world.open()
        assert await second.records("r1") == [record(), record(seq=2)]
        assert await second.inquiries() == [inquiry()]
        assert await second.inbox(["r1"]) == [letter()]
        assert (await second.run("r1")).epoch == 1

    play(scenario)


# -- owning ------------------------------------------------------------------------------------------


def test_acquiring_a_run_raises_the_epoch_and_names_the_owner_in_words(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        assert await store.acquire("r1", newest=0) == 1
        seen = await store.run("r1")
        assert seen.epoch == 1
        assert seen.owner.startswith("process ")
        assert (await store.runs())[0].owner == seen.owner

    play(scenario)


def test_a_run_of_a_live_owner_cannot_be_acquired_not_even_by_the_owner(play: Play) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        await one.submit(row(), record())
        await one.acquire("r1", newest=0)
        with pytest.raises(RunOwned, match=r"driven by process .* with `asterism log r1"):
            await other.acquire("r1", newest=0)
        with pytest.raises(RunOwned, match="this one"):
            await one.acquire("r1", newest=0)
        assert (await other.run("r1")).epoch == 1

    play(scenario)


def test_a_run_has_the_newest_version_that_has_written_to_it(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(msgspec.structs.replace(row(), version=1001), record())
        epoch = await store.acquire("r1", newest=1002)
        versions = [(await store.run("r1")).version]
        for after, version in enumerate((1002, 1001), 1):
            await store.append(with_(commit(epoch=epoch, after=after), version=version))
            versions.append((await store.run("r1")).version)
        assert versions == [1001, 1002, 1002]
        assert [it.version for it in await store.runs()] == [1002]

    play(scenario)


def test_a_run_of_a_newer_version_cannot_be_acquired_and_is_not_changed(play: Play) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        await one.submit(msgspec.structs.replace(row(), version=2001), record())
        before = await one.run("r1")
        with pytest.raises(RunNewer) as raised:
            await other.acquire("r1", newest=1999)
        assert str(raised.value) == (
            "run r1 was written with run version 2.1, and this program supports run versions up to 1.999;"
            " upgrade Asterism, or the program that defines the run's machine"
        )
        assert (raised.value.run_id, raised.value.theirs, raised.value.ours) == ("r1", 2001, 1999)
        assert await one.run("r1") == before
        assert await other.acquire("r1", newest=2001) == 1

    play(scenario)


def test_a_version_that_the_owner_raised_keeps_older_programs_out(play: Play) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        await one.submit(msgspec.structs.replace(row(), version=1001), record())
        epoch = await one.acquire("r1", newest=1002)
        await one.append(with_(commit(epoch=epoch), version=1002))
        await one.release("r1", epoch)
        with pytest.raises(RunNewer):
            await other.acquire("r1", newest=1001)

    play(scenario)


def test_a_released_run_can_be_acquired_by_another_owner(play: Play) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        await one.submit(row(), record())
        assert await one.release("r1", await one.acquire("r1", newest=0))
        assert (await one.run("r1")).owner == ""
        assert await other.acquire("r1", newest=0) == 2

    play(scenario)


def test_the_runs_of_a_dead_owner_can_be_acquired_and_no_longer_name_it(play: Play) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        for name in ("r1", "r2"):
            await one.submit(row(name), record(name))
            await one.acquire(name, newest=0)
        await world.kill(one)
        assert (await other.run("r1")).owner == ""
        assert await other.acquire("r1", newest=0) == 2
        assert await other.acquire("r2", newest=0) == 2

    play(scenario)


def test_a_run_is_not_released_while_its_inbox_holds_something_unfolded(play: Play) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        await one.submit(row(), record())
        epoch = await one.acquire("r1", newest=0)
        await other.send(letter())
        assert not await one.release("r1", epoch)
        with pytest.raises(RunOwned):
            await other.acquire("r1", newest=0)
        await one.append(with_(commit(epoch=epoch), folded=(("c1", "accepted"),)))
        assert await one.release("r1", epoch)
        assert await other.acquire("r1", newest=0) == 2

    play(scenario)


def test_a_release_with_a_stale_epoch_changes_nothing(play: Play) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        await one.submit(row(), record())
        stale = await one.acquire("r1", newest=0)
        await one.release("r1", stale)
        await other.acquire("r1", newest=0)
        await other.send(letter())
        assert await one.release("r1", stale)
        with pytest.raises(RunOwned):
            await one.acquire("r1", newest=0)

    play(scenario)


def test_of_many_takeovers_at_once_one_wins(play: Play) -> None:
    async def scenario(world: World) -> None:
        stores = [await world.open() for _ in range(8)]
        await stores[0].submit(row(), record())
        outcomes: list[str] = []

        async def claim(store: Store) -> None:
            try:
                outcomes.append(str(await store.acquire("r1", newest=0)))
            except RunOwned:
                outcomes.append("owned")

        async with asyncio.TaskGroup() as group:
            for store in stores:
                group.create_task(claim(store))
        assert sorted(outcomes) == ["1", *["owned"] * 7]

    play(scenario)


# -- appending ---------------------------------------------------------------------------------------


def test_an_append_updates_the_row_and_writes_its_records(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        epoch = await store.acquire("r1", newest=0)
        await store.append(with_(commit(epoch=epoch, count=2), state="FINISH", status="ended", outcome="finished", updated_at=321.0))
        seen = await store.run("r1")
        assert (seen.seq, seen.state, seen.status, seen.outcome, seen.updated_at) == (3, "FINISH", "ended", "finished", 321.0)
        assert await store.records("r1", after=1) == [record(seq=2), record(seq=3)]

    play(scenario)


@pytest.mark.parametrize(("epoch", "after"), [(0, 1), (2, 1), (1, 0), (1, 2)])
def test_an_append_whose_guard_fails_writes_nothing(play: Play, epoch: int, after: int) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        await store.acquire("r1", newest=0)
        await store.send(letter())
        before = await store.run("r1")
        with pytest.raises(StaleOwner, match="r1"):
            await store.append(with_(commit(epoch=epoch, after=after), opened=(inquiry(),), folded=(("c1", "accepted"),)))
        assert await store.run("r1") == before
        assert await store.records("r1") == [record()]
        assert await store.inquiries(open_only=False) == []
        assert await store.verdict("r1", "c1") == ""

    play(scenario)


def test_one_append_carries_inquiries_and_verdicts(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        epoch = await store.acquire("r1", newest=0)
        await store.send(letter())
        await store.append(with_(commit(epoch=epoch), opened=(inquiry(), inquiry("r1:2.1")), folded=(("c1", "accepted"),)))
        assert await store.inquiries(run_id="r1") == [inquiry(), inquiry("r1:2.1")]
        assert await store.verdict("r1", "c1") == "accepted"
        assert await store.inbox(["r1"]) == []
        await store.append(with_(commit(epoch=epoch, after=2), closed=(("r1:2.0", "approve"),)))
        assert await store.inquiries() == [inquiry("r1:2.1")]
        closed = msgspec.structs.replace(inquiry(), answer="approve")
        assert await store.inquiries(open_only=False) == [closed, inquiry("r1:2.1")]
        assert await store.inquiries(run_id="other", open_only=False) == []

    play(scenario)


def test_a_verdict_and_an_answer_once_given_stay(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        epoch = await store.acquire("r1", newest=0)
        await store.send(letter())
        await store.append(with_(commit(epoch=epoch), opened=(inquiry(),), closed=(("r1:2.0", "reject"),), folded=(("c1", "refused"),)))
        await store.append(with_(commit(epoch=epoch, after=2), closed=(("r1:2.0", "approve"),), folded=(("c1", "accepted"),)))
        assert await store.verdict("r1", "c1") == "refused"
        assert [it.answer for it in await store.inquiries(open_only=False)] == ["reject"]

    play(scenario)


def test_a_commit_with_a_gap_or_of_another_run_or_with_a_used_inquiry_is_a_mistake_and_writes_nothing(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        epoch = await store.acquire("r1", newest=0)
        await store.append(with_(commit(epoch=epoch), opened=(inquiry(),)))
        good = commit(epoch=epoch, after=2)
        wrong = (
            with_(good, records=(record(seq=4),)),
            with_(good, records=(record("r2", 3),)),
            with_(good, opened=(inquiry("new", run_id="r2"),)),
            with_(good, opened=(inquiry("new"), inquiry())),
        )
        for mistake in wrong:
            with pytest.raises(ValueError, match=r"belongs|cannot store|opens"):
                await store.append(mistake)
        assert await store.inquiries() == [inquiry()]
        await store.append(good)
        assert (await store.run("r1")).seq == 3

    play(scenario)


def test_a_stale_append_does_not_fail_the_others_of_its_group(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        names = [f"r{number}" for number in range(64)]
        for name in names:
            await store.submit(row(name), record(name))
            await store.acquire(name, newest=0)
        stale, mistaken = {"r7", "r40"}, {"r9"}
        await store.append(with_(commit("r0"), opened=(inquiry(run_id="r0"),)))
        refused: list[str] = []

        async def append(name: str) -> None:
            it = commit(name, epoch=9 if name in stale else 1, after=2 if name == "r0" else 1, count=3)
            try:
                await store.append(with_(it, opened=(inquiry(run_id=name),)) if name in mistaken else it)
            except (StaleOwner, ValueError) as error:
                refused.append(f"{name} {type(error).__name__}")

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(append(name))
        assert sorted(refused) == ["r40 StaleOwner", "r7 StaleOwner", "r9 ValueError"]
        for name in names[1:]:
            assert len(await store.records(name)) == (1 if name in stale | mistaken else 4), name

    play(scenario)


# -- the inbox ---------------------------------------------------------------------------------------


def test_sending_the_same_key_again_returns_the_row_that_is_there_and_later_its_verdict(play: Play) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        await one.submit(row(), record())
        epoch = await one.acquire("r1", newest=0)
        assert await other.send(letter()) == letter()
        assert await other.send(letter(body='{"again": true}')) == letter()
        await one.append(with_(commit(epoch=epoch), folded=(("c1", "refused: too late"),)))
        assert await other.send(letter()) == msgspec.structs.replace(letter(), verdict="refused: too late")
        assert await other.verdict("r1", "c1") == "refused: too late"
        assert await one.inbox(["r1"]) == []

    play(scenario)


def test_of_two_answers_with_one_key_one_wins_and_both_senders_get_it(play: Play) -> None:
    async def scenario(world: World) -> None:
        stores = [await world.open(), await world.open()]
        await stores[0].submit(row(), record())
        async with asyncio.TaskGroup() as group:
            told = [
                group.create_task(store.send(letter("r1:2.0", body=f'{{"by": {number}}}', actor=f"person {number}")))
                for number, store in enumerate(stores)
            ]
        assert told[0].result() == told[1].result()
        assert await stores[0].inbox(["r1"]) == [told[0].result()]

    play(scenario)


def test_the_inbox_shows_the_unfolded_rows_of_the_runs_asked_for_oldest_first(play: Play) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        for name in ("r1", "r2", "r3"):
            await one.submit(row(name), record(name))
        assert await one.inbox(["r1", "r2", "r3"]) == []
        for key, name in (("b", "r2"), ("a", "r1"), ("c", "r3"), ("0", "r2")):
            await other.send(letter(key, name))
        assert [(it.run_id, it.key) for it in await one.inbox(["r1", "r2"])] == [("r2", "b"), ("r1", "a"), ("r2", "0")]
        assert await one.inbox([]) == []

    play(scenario)


def test_a_row_cannot_bring_its_own_verdict(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        assert await store.send(msgspec.structs.replace(letter(), verdict="accepted")) == letter()

    play(scenario)


def test_closing_twice_is_harmless(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.close()
        await store.close()

    play(scenario)


# -- with real processes -----------------------------------------------------------------------------


@contextmanager
def driver(path: Path) -> Iterator[Callable[[str], str]]:
    """Another process on that database; calling it sends a line and returns its reply. It is killed at the end."""
    script = Path(__file__).with_name("store_process.py")
    with subprocess.Popen([sys.executable, str(script), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        lines, replies = process.stdin, process.stdout
        try:
            assert replies.readline() == "ready\n"

            def tell(line: str) -> str:
                lines.write(line + "\n")
                lines.flush()
                return replies.readline().rstrip()

            yield tell
        finally:
            process.kill()


def on(path: Path, act: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def whole() -> None:
        store = SqliteStore.open(path, create=True)
        try:
            await act(store)
        finally:
            await store.close()

    asyncio.run(whole())


def submitted(path: Path, names: Sequence[str]) -> None:
    async def act(store: SqliteStore) -> None:
        for name in names:
            await store.submit(row(name), record(name))

    on(path, act)


def test_after_kill_9_of_its_owner_a_run_is_acquired_by_the_next_with_its_whole_journal(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    submitted(path, ["r1"])

    async def live(store: SqliteStore) -> None:
        with pytest.raises(RunOwned, match=r"driven by process \d+ on "):
            await store.acquire("r1", newest=0)

    async def dead(store: SqliteStore) -> None:
        assert [it.seq for it in await store.records("r1")] == [1, 2, 3]
        assert (await store.run("r1")).owner == ""
        assert await store.acquire("r1", newest=0) == 2
        await store.append(commit(epoch=2, after=3))
        assert len(list((tmp_path / "runs.db.owners").iterdir())) == 1

    with driver(path) as tell:
        assert tell("claim r1") == "1"
        assert tell("append r1 1 1") == "appended"
        assert tell("append r1 1 2") == "appended"
        on(path, live)
    on(path, dead)
    assert list((tmp_path / "runs.db.owners").iterdir()) == []


def test_of_processes_that_acquire_a_run_at_once_exactly_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    names = [f"r{number}" for number in range(20)]
    submitted(path, names)
    with ExitStack() as stack:
        drivers = [stack.enter_context(driver(path)) for _ in range(3)]

        def claim_all(tell: Callable[[str], str]) -> list[str]:
            return [tell(f"claim {name}") for name in names]

        async def race() -> list[list[str]]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(asyncio.to_thread(claim_all, tell)) for tell in drivers]
            return [task.result() for task in tasks]

        told = asyncio.run(race())
    for outcomes in zip(*told, strict=True):
        lost = [outcome for outcome in outcomes if outcome != "1"]
        assert len(lost) == len(drivers) - 1
        assert all(outcome.startswith("RunOwned") for outcome in lost)


def test_a_child_process_that_outlives_its_parent_does_not_own_the_parents_runs(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    submitted(path, ["r1"])
    program = """
import asyncio, os, sys, warnings
from asterism.stores.sqlite import SqliteStore
async def main():
    store = SqliteStore.open(sys.argv[1], create=False)
    await store.acquire("r1", newest=0)
    warnings.simplefilter("ignore")
    if os.fork():
        os.kill(os.getpid(), 9)
    os.write(1, b"forked")
    os.read(0, 1)
    os._exit(0)
asyncio.run(main())
"""
    reader, writer = os.pipe()
    # The child ends when the pipe that it reads is closed.
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdin=reader, stdout=subprocess.PIPE) as parent:
        assert parent.wait() == -9
        assert parent.stdout is not None
        assert parent.stdout.read(6) == b"forked"

        async def act(store: SqliteStore) -> None:
            assert await store.acquire("r1", newest=0) == 2

        try:
            on(path, act)
        finally:
            os.close(writer)
            os.close(reader)


# -- forgetting --------------------------------------------------------------------------------------


async def end(store: Store, run_id: str, *, at: float, outcome: str = "finished") -> None:
    await store.submit(row(run_id), record(run_id))
    epoch = await store.acquire(run_id, newest=0)
    ended = with_(commit(run_id, epoch=epoch), status="ended", outcome=outcome, updated_at=at, opened=(inquiry(f"{run_id}:2.0", run_id),))
    await store.append(ended)
    await store.release(run_id, epoch)


def test_a_run_submitted_with_a_whole_journal_reads_back_with_its_open_questions(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record(), record(seq=2), opened=(inquiry(),))
        assert (await store.run("r1")).seq == 2
        assert await store.records("r1") == [record(), record(seq=2)]
        assert await store.inquiries(run_id="r1") == [inquiry()]

    play(scenario)


def test_pruning_deletes_ended_runs_by_age_and_outcome_with_all_their_rows(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await end(store, "old", at=100.0)
        await end(store, "failed", at=100.0, outcome="failed")
        await end(store, "young", at=900.0)
        await store.submit(row("active"), record("active"))
        assert await store.prune(before=500.0, outcomes=("finished",)) == 1
        assert {found.run_id for found in await store.runs()} == {"failed", "young", "active"}
        assert await store.records("old") == []
        assert await store.inquiries(run_id="old") == []
        with pytest.raises(RunNotFound):
            await store.run("old")

    play(scenario)


def test_the_last_snapshot_is_stored_until_its_run_ends(play: Play) -> None:
    first, second = (Snapshot(run_id="r1", seq=seq, code_version="these", body=f'{{"seq": {seq}}}') for seq in (2, 3))

    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row(), record())
        assert await store.snapshot("r1") is None
        epoch = await store.acquire("r1", newest=0)
        await store.append(with_(commit(epoch=epoch), snapshot=first))
        assert await store.snapshot("r1") == first
        with pytest.raises(StaleOwner):
            await store.append(with_(commit(epoch=epoch), snapshot=second))
        assert await store.snapshot("r1") == first
        await store.append(with_(commit(epoch=epoch, after=2), snapshot=second))
        await store.append(commit(epoch=epoch, after=3))
        await world.kill(store)
        again = await world.open()
        assert await again.snapshot("r1") == second
        epoch = await again.acquire("r1", newest=0)
        await again.append(with_(commit(epoch=epoch, after=4), status="ended", outcome="finished"))
        assert await again.snapshot("r1") is None

    play(scenario)


def test_pruning_never_forgets_a_run_that_has_not_ended_or_is_owned(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row("active"), record("active"))
        await end(store, "owned", at=1.0)
        await store.acquire("owned", newest=0)
        assert await store.prune() == 0
        assert {found.run_id for found in await store.runs()} == {"active", "owned"}

    play(scenario)


def test_a_run_whose_owner_died_before_its_release_can_be_pruned(play: Play) -> None:
    async def scenario(world: World) -> None:
        store, other = await world.open(), await world.open()
        await end(store, "over", at=1.0)
        await store.acquire("over", newest=0)
        assert await other.prune() == 0
        await world.kill(store)
        assert await other.prune() == 1
        assert await other.runs() == []

    play(scenario)


def test_pruning_by_size_forgets_the_oldest_until_it_fits(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        for number in range(5):
            await end(store, f"r{number}", at=float(number))
        assert await store.prune(keep_bytes=10**9) == 0
        assert await store.prune(keep_bytes=0) == 5

    play(scenario)


def test_open_runs_that_are_larger_than_the_bound_let_pruning_by_size_delete_nothing(play: Play) -> None:
    """B1."""

    async def scenario(world: World) -> None:
        store = await world.open()
        await end(store, "ended", at=1.0)
        await store.submit(row("open"), msgspec.structs.replace(record("open"), body='"' + "x" * 2_000_000 + '"'))
        with pytest.raises(Refused, match=r"have not ended have about 2\.0 MB, more than 1 MB: nothing is deleted for size"):
            await store.prune(keep_bytes=1_000_000)
        assert len(await store.runs()) == 2
        assert await store.prune() == 1

    play(scenario)


# -- trees of runs -----------------------------------------------------------------------------------


async def plant(store: Store) -> None:
    """A root with a child and a grandchild, and another root."""
    await store.submit(row("top"), record("top"))
    for name, parent in (("below", "top"), ("deep", "below")):
        planted = msgspec.structs.replace(row(name), parent=parent, root="top")
        await store.submit(planted, record(name), opened=(inquiry(f"{name}:1.0", name),))
    await store.submit(row("other"), record("other"), opened=(inquiry("other:1.0", "other"),))


def test_a_run_without_a_parent_is_its_own_root_and_lists_its_tree(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await plant(store)
        assert {found.run_id: found.root for found in await store.runs()} == {"top": "top", "below": "top", "deep": "top", "other": "other"}
        assert {found.run_id for found in await store.runs(root="top")} == {"top", "below", "deep"}
        assert {found.run_id for found in await store.runs(roots_only=True)} == {"top", "other"}
        assert await store.runs(root="below") == []

    play(scenario)


def test_the_questions_of_a_tree_are_listed_at_its_root(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await plant(store)
        assert [found.inquiry_id for found in await store.inquiries(root="top")] == ["below:1.0", "deep:1.0"]
        assert [found.inquiry_id for found in await store.inquiries(run_id="deep")] == ["deep:1.0"]
        assert await store.inquiries(run_id="deep", root="other") == []
        assert len(await store.inquiries()) == 3

    play(scenario)


def test_runs_are_listed_by_the_beginning_of_their_id_and_without_those_that_have_ended(play: Play) -> None:
    """B5."""

    async def scenario(world: World) -> None:
        store = await world.open()
        for name in ("7-ab", "7-abc", "8-b", "ab", "7_ab-%"):
            await store.submit(row(name), record(name))
        await end(store, "7-a", at=1.0)

        async def listed(begins: str, *, open_only: bool = False) -> set[str]:
            return {found.run_id for found in await store.runs(begins=begins, open_only=open_only)}

        assert await listed("7-a") == {"7-a", "7-ab", "7-abc"}
        assert await listed("7-a", open_only=True) == {"7-ab", "7-abc"}
        assert await listed("ab") == {"7-ab", "7-abc", "ab"}
        assert await listed("%") == {"7_ab-%"}
        assert await listed("AB") == await listed("_") == set()
        assert await listed("", open_only=True) == {"7-ab", "7-abc", "8-b", "ab", "7_ab-%"}

    play(scenario)


@pytest.mark.parametrize("name", ["below", "deep"])
def test_a_root_is_not_released_while_something_unfolded_is_for_a_run_below_it(play: Play, name: str) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await plant(store)
        epochs = {run: await store.acquire(run, newest=0) for run in ("top", "below", "deep", "other")}
        await store.send(letter(run_id=name))
        assert await store.release("other", epochs["other"])
        assert not await store.release("top", epochs["top"])
        assert (await store.run("top")).owner
        await store.append(msgspec.structs.replace(commit(name), status="ended", outcome="finished"))
        assert await store.release("top", epochs["top"]), "nobody takes what comes for a child that has ended"

    play(scenario)


def test_pruning_deletes_no_more_trees_than_its_limit_oldest_first(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        for number in range(5):
            await end(store, f"r{number}", at=float(number))
        assert await store.prune(limit=0) == 0
        assert await store.prune(limit=2) == 2
        assert {found.run_id for found in await store.runs()} == {"r2", "r3", "r4"}
        assert await store.prune(before=4.0, limit=100) == 2
        assert {found.run_id for found in await store.runs()} == {"r4"}

    play(scenario)


def test_a_tree_is_forgotten_with_its_root_and_a_child_never_alone(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await plant(store)
        for name in ("below", "deep"):
            epoch = await store.acquire(name, newest=0)
            await store.append(msgspec.structs.replace(commit(name), status="ended", outcome="finished"))
            await store.release(name, epoch)
        assert await store.prune() == 0
        epoch = await store.acquire("top", newest=0)
        await store.append(msgspec.structs.replace(commit("top"), status="ended", outcome="finished"))
        await store.release("top", epoch)
        assert await store.prune() == 1
        assert {found.run_id for found in await store.runs()} == {"other"}
        assert await store.records("deep") == []
        assert [found.inquiry_id for found in await store.inquiries(open_only=False)] == ["other:1.0"]

    play(scenario)
