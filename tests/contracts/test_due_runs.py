"""Contract of stores: which runs are due, searching them, and what a tenant sees."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from asterism.app.bootstrap import FORMS
from asterism.engine.ports.notices import STUCK_TRIES, Delivery, DeliveryStatus, Notice
from asterism.engine.ports.store import InquiryRow, ProcessRow, RunQuery, RunRow, Store, WorkSummary, inquiry_cursor, run_cursor
from asterism.engine.runtime.form import idle_kinds
from asterism.engine.runtime.problems import CRASHED
from asterism.errors import InvalidInput, RunNotFound
from asterism.stores import sqlite
from asterism.stores.sqlite import SqliteStore
from tests.contracts.test_stores import Play, World, commit, inquiry, letter, plant, play, record, row, with_

__all__ = ["play"]
NOW = 500.0
ANY = ("",)
IDLE_KINDS = idle_kinds(FORMS.values())


async def submit(store: Store, *names: str, **changes: object) -> None:
    for name in names:
        await store.submit(msgspec.structs.replace(row(name), **changes), record(name))


async def due(store: Store, *, limit: int = 10, now: float = NOW) -> list[str]:
    return [it.run_id for it in await store.acquire_due(limit, fleets=ANY, now=now, idle_kinds=IDLE_KINDS)]


# -- when a run is due -------------------------------------------------------------------------------


def test_a_submitted_root_is_due_and_is_acquired_once_with_its_row(play: Play) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        await submit(one, "r1")
        (found,) = await other.acquire_due(10, fleets=ANY, now=NOW, idle_kinds=IDLE_KINDS)
        assert found == await other.run("r1")
        assert (found.epoch, found.due_at) == (1, None)
        assert await due(one) == []
        await other.append(commit(epoch=found.epoch))

    play(scenario)


def test_a_run_is_due_when_its_submitter_says_and_an_ended_run_or_a_child_never(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await submit(store, "later", due_at=NOW + 5)
        await submit(store, "over", status="ended")
        await submit(store, "imported", due_at=None)
        await submit(store, "child", root="later", due_at=1.0)
        assert await due(store) == []
        assert (await store.run("child")).due_at is (await store.run("over")).due_at is None
        assert await due(store, now=NOW + 5) == ["later"]

    play(scenario)


def test_acquiring_a_run_by_its_id_makes_it_not_due(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await submit(store, "r1")
        await store.acquire("r1", newest=0)
        assert (await store.run("r1")).due_at is None

    play(scenario)


def test_a_released_run_is_due_at_the_given_time_and_never_without_one(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await submit(store, "timed", "parked")
        for found in await store.acquire_due(10, fleets=ANY, now=NOW, idle_kinds=IDLE_KINDS):
            assert await store.release(found.run_id, found.epoch, due_at=NOW + 60 if found.run_id == "timed" else None)
        assert await due(store, now=NOW + 59) == []
        assert await due(store, now=NOW + 60) == ["timed"]

    play(scenario)


def test_a_run_that_was_released_by_force_is_due_at_once_and_a_child_is_not(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await plant(store)
        for name in ("top", "below"):
            await store.release(name, await store.acquire(name, newest=0), force=True)
        assert (await store.run("top")).due_at == 0.0
        assert (await store.run("below")).due_at is None
        assert await due(store, now=0.0) == ["top"]

    play(scenario)


@pytest.mark.parametrize("name", ["top", "below", "deep"])
def test_what_is_sent_to_any_run_of_a_tree_makes_its_root_due(play: Play, name: str) -> None:
    async def scenario(world: World) -> None:
        store, other = await world.open(), await world.open()
        await plant(store)
        assert sorted(await due(store)) == ["other", "top"]
        assert await store.release("top", 1, due_at=NOW + 900)
        await other.send(letter(run_id=name))
        assert (await store.run("top")).due_at == letter().at
        await other.send(msgspec.structs.replace(letter("later", name), at=NOW))
        assert (await store.run("top")).due_at == letter().at
        assert await due(other) == ["top"]

    play(scenario)


def test_what_is_sent_to_an_owned_run_does_not_make_it_due(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await submit(store, "r1")
        epoch = await store.acquire("r1", newest=0)
        await store.send(letter())
        assert (await store.run("r1")).due_at is None
        await store.append(with_(commit(epoch=epoch), folded=(("c1", "accepted"),)))
        await store.release("r1", epoch)
        await store.send(letter())
        assert await due(store) == [], "the key was used, so nothing new has come"

    play(scenario)


def test_what_is_sent_to_an_ended_run_makes_it_due_so_that_it_gets_a_verdict(play: Play) -> None:
    async def scenario(world: World) -> None:
        store, other = await world.open(), await world.open()
        await submit(store, "r1")
        epoch = await store.acquire("r1", newest=0)
        await store.append(with_(commit(epoch=epoch), status="ended", outcome="finished"))
        await other.send(letter())
        await world.kill(store)
        assert await due(other) == ["r1"]

    play(scenario)


def test_what_was_sent_before_a_run_ended_makes_it_due_if_its_owner_dies_before_the_verdict(play: Play) -> None:
    async def scenario(world: World) -> None:
        store, other = await world.open(), await world.open()
        await submit(store, "r1")
        epoch = await store.acquire("r1", newest=0)
        await other.send(letter())
        await store.append(with_(commit(epoch=epoch), status="ended", outcome="finished"))
        assert await due(other) == [], "its owner gives the verdict"
        await world.kill(store)
        assert await due(other) == ["r1"]

    play(scenario)


def test_an_unfinished_root_of_a_dead_owner_is_due_and_an_ended_one_is_not(play: Play) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        await plant(one)
        await submit(one, "over")
        for name in ("top", "below", "over"):
            await one.acquire(name, newest=0)
        await one.append(with_(commit("over"), status="ended", outcome="finished"))
        assert await due(other) == ["other"]
        await world.kill(one)
        assert await due(other, now=0.0) == ["top"]
        assert (await other.run("below")).owner == ""

    play(scenario)


# -- whose turn it is --------------------------------------------------------------------------------


def test_the_run_that_is_due_for_longest_comes_first_up_to_the_limit(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        for name, at in (("b", 20.0), ("c", 30.0), ("a", 10.0)):
            await submit(store, name, due_at=at)
        assert await due(store, limit=0) == []
        assert await due(store, limit=2) == ["a", "b"]
        assert await due(store, limit=2) == ["c"]

    play(scenario)


def test_free_places_go_to_the_tenants_with_the_fewest_runs(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await submit(store, *(f"a{number}" for number in range(6)), tenant="ada", due_at=1.0)
        assert await due(store, limit=2) == ["a0", "a1"]
        await submit(store, *(f"b{number}" for number in range(3)), tenant="bob", due_at=2.0)
        await submit(store, "c0", tenant="cyd", due_at=3.0)
        assert await due(store, limit=3) == ["b0", "c0", "b1"], "ada has two already"
        assert await due(store, limit=2) == ["a2", "b2"]

    play(scenario)


def test_only_runs_of_the_fleets_asked_for_are_acquired(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        for name, fleet in (("none", ""), ("ours", "digits"), ("theirs", "photos")):
            await submit(store, name, fleet=fleet)
        assert {it.run_id for it in await store.acquire_due(9, fleets=("", "digits"), now=NOW, idle_kinds=IDLE_KINDS)} == {"none", "ours"}
        assert {it.run_id for it in await store.acquire_due(9, fleets=("photos",), now=NOW, idle_kinds=IDLE_KINDS)} == {"theirs"}

    play(scenario)


def test_of_many_processes_each_due_run_is_acquired_by_one(play: Play) -> None:
    async def scenario(world: World) -> None:
        stores = [await world.open() for _ in range(4)]
        names = [f"r{number:02}" for number in range(40)]
        await submit(stores[0], *names)
        async with asyncio.TaskGroup() as group:
            taken = [group.create_task(due(store, limit=7)) for store in stores for _ in range(3)]
        assert sorted(name for task in taken for name in task.result()) == names

    play(scenario)


# -- problems ----------------------------------------------------------------------------------------


def test_problems_are_counted_until_a_drive_ends_well(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await submit(store, "r1", tries=7, problem="from elsewhere")
        assert (await store.run("r1")).tries == 0
        for number in (1, 2):
            epoch = await store.acquire("r1", newest=0)
            await store.release("r1", epoch, force=True, due_at=NOW + number, problem=f"no device ({number})")
            found = await store.run("r1")
            assert (found.tries, found.problem, found.due_at) == (number, f"no device ({number})", NOW + number)
            assert await store.count_stuck() == 1
        await store.release("r1", await store.acquire("r1", newest=0), force=True)
        assert (await store.run("r1")).tries == 2, "a process that ends says nothing about the run"
        await store.release("r1", await store.acquire("r1", newest=0))
        found = await store.run("r1")
        assert (found.tries, found.problem, found.due_at) == (0, "", None)
        assert await store.count_stuck() == 0

    play(scenario)


async def drive_and_die(world: World, now: float, *kinds: str, run: str = "r1") -> list[str]:
    """Let a process acquire what is due, append entries to a run under its epoch, and die; return what it acquired."""
    store = await world.open()
    acquired = await due(store, now=now)
    found = await store.run(run)
    records = tuple(
        msgspec.structs.replace(record(run, found.seq + number), kind=kind, key=f"{found.epoch}.{number}")
        for number, kind in enumerate(kinds, 1)
    )
    if records:
        await store.append(with_(commit(run, epoch=found.epoch, after=found.seq), records=records))
    await world.kill(store)
    return acquired


def test_a_run_whose_process_dies_again_and_again_without_progress_is_due_after_a_growing_delay(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await submit(store, "r1")
        now = NOW
        for _ in range(STUCK_TRIES):
            assert await drive_and_die(world, now, "ownership_acquired", "attempt_progressed") == ["r1"]
        for number in range(4):
            assert await due(store, now=now) == []
            found = await store.run("r1")
            assert (found.owner, found.tries, found.problem, found.due_at) == ("", STUCK_TRIES + number, CRASHED, now + 2.0**number)
            now += 2.0**number
            assert await drive_and_die(world, now) == ["r1"], "it may die while it reads the journal"
        (notice,) = await store.unrouted_notices()
        assert (notice.kind, notice.run_id, notice.text, notice.at) == ("stuck", "r1", CRASHED, NOW + 1)

    play(scenario)


@pytest.mark.parametrize("name", ["top", "deep"])
def test_progress_of_any_run_of_a_tree_before_its_process_dies_makes_it_due_at_once(play: Play, name: str) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await plant(store)
        await store.release("top", await store.acquire("top", newest=0), force=True, due_at=NOW, problem="no device")
        for _ in range(STUCK_TRIES + 1):
            dying = await world.open()
            assert "top" in await due(dying)
            epoch = {"top": (await dying.run("top")).epoch, "deep": await dying.acquire("deep", newest=0)}
            seq = (await dying.run(name)).seq
            records = (msgspec.structs.replace(record(name, seq + 1), kind="ownership_acquired"), record(name, seq + 2))
            await dying.append(with_(commit(name, epoch=epoch[name], after=seq), records=records))
            await world.kill(dying)
        assert "top" in await due(store)
        found = await store.run("top")
        assert (found.tries, found.problem) == (0, "")

    play(scenario)


# -- waiting for work --------------------------------------------------------------------------------


@asynccontextmanager
async def waiting(store: Store) -> AsyncIterator[None]:
    """Expect that the body wakes this store."""
    await store.wait_for_work(0.3)  # what had come before
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(store.wait_for_work(60.0))
        await asyncio.sleep(0.01)
        yield


def test_waiting_ends_when_something_comes_from_here_or_from_another_process(play: Play) -> None:
    async def scenario(world: World) -> None:
        store, other = await world.open(), await world.open()
        for sender in (store, other):
            async with waiting(store):
                await submit(sender, f"r{id(sender)}")
            async with waiting(store):
                await sender.send(letter(run_id=f"r{id(sender)}"))
            epoch = await sender.acquire(f"r{id(sender)}", newest=0)
            async with waiting(store):
                await sender.release(f"r{id(sender)}", epoch, force=True)

    play(scenario)


def test_waiting_ends_at_the_time_limit(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        async with asyncio.timeout(30):
            await store.wait_for_work(0.01)
            await store.wait_for_work(0.01)

    play(scenario)


# -- searching ---------------------------------------------------------------------------------------


async def stock(store: Store) -> None:
    """Runs of two tenants, one second apart, and a child of the first; the last has ended."""
    for number, (title, tenant, machine) in enumerate(
        (
            ("Count the files", "ada", "constellation"),
            ("100% of the files", "ada", "loop"),
            ("refund a_b", "bob", "loop"),
            ("größer", "bob", "flow"),
        )
    ):
        name = f"20261122-{number}"
        actor, status = "bob@operator" if number == 2 else "", "ended" if number == 3 else "active"
        outcome = "failed" if status == "ended" else ""
        times = {"created_at": 100.0 + number}
        await submit(store, name, title=title, tenant=tenant, machine=machine, actor=actor, status=status, outcome=outcome, **times)
    await submit(store, "20261122-0.1.0", title="count below", tenant="ada", root="20261122-0", created_at=100.5)


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (RunQuery(), "3210"),
        (RunQuery(roots_only=False), "321.0"),
        (RunQuery(text="FILES"), "10"),
        (RunQuery(text="count"), "0"),
        (RunQuery(text="100%"), "1"),
        (RunQuery(text="a_b"), "2"),
        (RunQuery(text="_"), "2"),
        (RunQuery(text="\\"), ""),
        (RunQuery(text="größer"), "3"),
        (RunQuery(text="20261122-2"), "2"),
        (RunQuery(text="1122-2"), ""),
        (RunQuery(tenant="ada"), "10"),
        (RunQuery(tenant="nobody"), ""),
        (RunQuery(tenant="bob", machine="loop"), "2"),
        (RunQuery(status="waiting"), ""),
        (RunQuery(actor="bob@operator"), "2"),
        (RunQuery(open_only=True, roots_only=False), "21.0"),
        (RunQuery(open_only=True, status="ended"), ""),
        (RunQuery(outcome="failed"), "3"),
        (RunQuery(outcome="failed", tenant="bob", text="gr"), "3"),
        (RunQuery(outcome="failed", actor="bob@operator"), ""),
        (RunQuery(outcome="finished"), ""),
        (RunQuery(status="active", created_from=101.0, created_before=103.0), "21"),
    ],
)
def test_a_search_finds_what_matches_newest_first(play: Play, query: RunQuery, numbers: str) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await stock(store)
        found = [it.run_id for it in await store.find_runs(query)]
        names = {"0": "20261122-0", "1": "20261122-1", "2": "20261122-2", "3": "20261122-3", ".": "20261122-0.1.0"}
        assert found == [names[number] for number in numbers]

    play(scenario)


def test_a_search_goes_page_by_page_also_among_runs_of_one_time(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await submit(store, *(f"r{number:02}" for number in range(25)))
        await submit(store, "newer", created_at=200.25)
        seen: list[RunRow] = []
        while page := await store.find_runs(RunQuery(), after=run_cursor(seen[-1]) if seen else "", limit=7):
            seen += page
            await submit(store, f"meanwhile{len(seen)}", created_at=300.0)
        assert [it.run_id for it in seen] == ["newer", *(f"r{number:02}" for number in reversed(range(25)))]
        with pytest.raises(InvalidInput, match="'r07' is no place in a list of runs"):
            await store.find_runs(RunQuery(), after="r07")

    play(scenario)


def test_found_runs_name_their_live_owner(play: Play) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        await submit(one, "r1")
        await one.acquire("r1", newest=0)
        assert (await other.find_runs(RunQuery()))[0].owner == (await other.run("r1")).owner != ""
        await world.kill(one)
        assert (await other.find_runs(RunQuery()))[0].owner == ""

    play(scenario)


def test_new_records_of_several_runs_come_together(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await submit(store, "a", "b", "c", "quiet")
        for name in ("a", "b", "c"):
            await store.append(commit(name, epoch=await store.acquire(name, newest=0), count=9))

        async def after(limit: int, **cursors: int) -> list[tuple[str, int]]:
            return [(it.run_id, it.seq) for it in await store.records_after(cursors, limit)]

        assert await after(100, a=8, b=10, c=9, quiet=1, unknown=0) == [("a", 9), ("a", 10), ("c", 10)]
        assert await after(4, a=0, b=10, c=0) == [("a", 1), ("a", 2), ("c", 1), ("c", 2)]
        assert await after(1, a=10**30, c=5) == [("c", 6)]
        assert await after(100) == []

    play(scenario)


# -- pages of questions ------------------------------------------------------------------------------


def test_open_questions_are_found_page_by_page_in_the_order_of_their_times(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        times = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 2.0, "e": 1.5}
        for name, at in times.items():
            asked = msgspec.structs.replace(inquiry(f"{name}:1.0", name), asked_at=at)
            tenant, root = "other" if name == "c" else "t", "a" if name in ("b", "d") else name
            changes = {"tenant": tenant, "root": root, "parent": "" if root == name else root}
            await store.submit(msgspec.structs.replace(row(name), **changes), record(name), opened=(asked,))
        closed = with_(commit("e", epoch=await store.acquire("e", newest=0)), closed=(("e:1.0", "approve"),))
        await store.append(closed)

        async def pages(limit: int, **only: str) -> list[str]:
            found: list[InquiryRow] = []
            while page := await store.find_inquiries(**only, after=inquiry_cursor(found[-1]) if found else "", limit=limit):
                assert len(page) <= limit
                found += page
            return [it.run_id for it in found]

        for limit in (1, 2, 9):
            assert await pages(limit) == ["b", "c", "d", "a"]
            assert await pages(limit, tenant="t") == ["b", "d", "a"]
            assert await pages(limit, root="a") == ["b", "d", "a"]
            assert await pages(limit, root="a", tenant="other") == []
        with pytest.raises(InvalidInput, match="'x' is no place in a list of questions"):
            await store.find_inquiries(after="x")

    play(scenario)


# -- tenants -----------------------------------------------------------------------------------------


def test_a_run_of_another_tenant_is_as_one_that_does_not_exist(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await submit(store, "r1")
        await store.append(with_(commit(epoch=await store.acquire("r1", newest=0)), opened=(inquiry(),)))
        assert (await store.run("r1", tenant="t")).run_id == "r1"
        assert await store.inquiries(tenant="t") == await store.inquiries(run_id="r1", tenant="t") == [inquiry()]
        assert len(await store.records_after({"r1": 0}, 9, tenant="t")) == 2
        assert await store.send(letter(), tenant="t") == letter()
        for tenant in ("other", ""):
            messages = []
            for name in ("r1", "r2"):
                for ask in (store.run(name, tenant=tenant), store.send(letter("c1", name), tenant=tenant)):
                    with pytest.raises(RunNotFound) as raised:
                        await ask
                    messages.append(str(raised.value).replace(name, "ID"))
            assert len(set(messages)) == 1
            assert await store.inquiries(tenant=tenant) == await store.inquiries(run_id="r1", tenant=tenant) == []
            assert await store.inquiries(root="r1", tenant=tenant, open_only=False) == []
            assert await store.find_inquiries(tenant=tenant) == await store.find_inquiries(root="r1", tenant=tenant) == []
            assert await store.records_after({"r1": 0}, 9, tenant=tenant) == []
            assert await store.find_runs(RunQuery(tenant=tenant)) == []
        assert [it.key for it in await store.inbox(["r1"])] == ["c1"]

    play(scenario)


# -- processes ---------------------------------------------------------------------------------------


def test_processes_that_drive_or_serve_are_listed_while_they_live(play: Play) -> None:
    async def scenario(world: World) -> None:
        driving, serving, reading = await world.open(), await world.open(), await world.open()
        assert await reading.list_processes() == []
        await submit(driving, "r1")
        await driving.acquire("r1", newest=0)
        (driver,) = await reading.list_processes()
        assert driver == ProcessRow(description=(await reading.run("r1")).owner)
        await serving.announce_server("digits", "http://127.0.0.1:8383/a/long/path")
        await serving.announce_server("digits", "http://127.0.0.1:8383", fleet_file="/srv/digits.toml")
        (server,) = [it for it in await reading.list_processes() if it.serves]
        assert (server.fleet, server.fleet_file, server.url) == ("digits", "/srv/digits.toml", "http://127.0.0.1:8383")
        await world.kill(serving)
        assert await reading.list_processes() == [driver]

    play(scenario)


# -- the work of a database --------------------------------------------------------------------------


def test_work_is_counted_by_kind_with_the_runs_that_moved_least_recently(play: Play) -> None:
    async def scenario(world: World) -> None:
        driving, dead, store = await world.open(), await world.open(), await world.open()
        assert await store.summarize_work(now=NOW) == WorkSummary()
        await submit(store, "due-2", due_at=NOW, updated_at=2.0)
        await submit(store, "due-1", due_at=0.0, updated_at=1.0)
        await submit(store, "later", due_at=NOW + 1)
        await submit(store, "idle", due_at=None)
        await submit(store, "asks", status="waiting", due_at=NOW + 9)
        await submit(store, "paused", status="paused", due_at=None, tenant="b")
        await submit(store, "answered", status="waiting", due_at=NOW - 1, updated_at=3.0)
        await submit(store, "over", status="ended")
        await submit(store, "child", root="idle", due_at=None)
        await submit(store, "mine", "lost", "broken")
        await driving.acquire("mine", newest=0)
        await dead.acquire("lost", newest=0)
        await store.release("broken", await store.acquire("broken", newest=0), force=True, due_at=0.0, problem="no such loop")
        await world.kill(dead)
        found = await store.summarize_work(now=NOW, limit=2)
        assert found.counts == {"due": 4, "later": 1, "idle": 1, "waiting": 1, "paused": 1, "driven": 1, "stuck": 1}
        assert set(found.oldest.pop("due")) < {"lost", "due-1", "due-2", "answered"}
        named = {"later": ["later"], "idle": ["idle"], "waiting": ["asks"], "paused": ["paused"], "driven": ["mine"], "stuck": ["broken"]}
        assert found.oldest == named
        assert found.driven_by == {(await store.run("mine")).owner: 1}

    play(scenario)


def test_messages_are_counted_with_the_reason_for_which_one_waits(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        for _ in range(5):
            await store.add_notice(Notice(kind="device_lost", subject="robot", at=NOW))
        states: list[DeliveryStatus] = ["waiting", "sending", "failed", "sent"]
        for state, notice in zip(states, await store.unrouted_notices(), strict=False):
            error = "no answer within 30 s" if state == "waiting" else ""
            await store.route_notice(notice.number, [Delivery(notice=notice.number, channel="ops", status=state, error=error)])
        found = await store.summarize_work(now=NOW)
        assert (found.unrouted, found.unsent, found.failed, found.error) == (1, 2, 1, "ops: no answer within 30 s")

    play(scenario)


# -- SQLite ------------------------------------------------------------------------------------------


def test_a_file_of_an_owner_that_is_being_made_is_left_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore.open(tmp_path / "runs.db", create=True)
        try:
            await store.announce_server("digits")
            (tmp_path / "runs.db.owners" / "abc").touch()
            assert len(await store.list_processes()) == 1
            assert (tmp_path / "runs.db.owners" / "abc").exists()
        finally:
            await store.close()

    asyncio.run(scenario())


def test_looking_for_work_in_an_idle_database_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "WORK_POLL_S", 0.001)

    async def scenario() -> None:
        store = SqliteStore.open(tmp_path / "runs.db", create=True)
        try:
            await submit(store, "r1", due_at=NOW + 1)
            await store.acquire_due(10, fleets=ANY, now=NOW, idle_kinds=IDLE_KINDS)
            log = tmp_path / "runs.db-wal"
            size, at = log.stat().st_size, time.time()
            for _ in range(20):
                assert await store.acquire_due(10, fleets=ANY, now=NOW, idle_kinds=IDLE_KINDS) == []
                await store.wait_for_work(0.002)
            assert log.stat().st_size == size
            assert log.stat().st_mtime <= at
        finally:
            await store.close()

    asyncio.run(scenario())
