"""Contract of the notices of stores, on each of them."""

from __future__ import annotations

import msgspec

from asterism.engine.ports.notices import STUCK_TRIES, Delivery, Notice
from tests.contracts.test_stores import Play, World, commit, inquiry, play, record, row

__all__ = ["play"]

LOST = Notice(kind="device_lost", subject="robot", text="no answer", at=5.0)


async def numbers(world: World) -> list[tuple[str, str, str]]:
    store = await world.open()
    return [(it.kind, it.run_id, it.subject) for it in await store.unrouted_notices()]


def test_a_question_that_opens_and_a_run_that_fails_are_noted_with_the_fact(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row("r1"), record("r1"))
        await store.submit(msgspec.structs.replace(row("r2"), tenant="b"), record("r2"), opened=[inquiry("r2:1.0", "r2")])
        epoch = await store.acquire("r1", newest=99)
        await store.append(msgspec.structs.replace(commit(epoch=epoch), opened=[inquiry()]))
        assert await numbers(world) == [("question", "r2", "r2:1.0"), ("question", "r1", "r1:2.0")]
        first, second = await store.unrouted_notices()
        assert (first.tenant, second.tenant, second.at) == ("b", "t", 150.0)
        await store.append(msgspec.structs.replace(commit(epoch=epoch, after=2), status="ended", outcome="failed"))
        assert (await numbers(world))[2:] == [("failed", "r1", "")]

    play(scenario)


def test_a_commit_of_a_later_owner_after_the_end_is_no_second_failure(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row("r1"), record("r1"))
        for after in (1, 2):
            epoch = await store.acquire("r1", newest=99)
            await store.append(msgspec.structs.replace(commit(epoch=epoch, after=after), status="ended", outcome="failed"))
            await store.release("r1", epoch)
        assert await numbers(world) == [("failed", "r1", "")]

    play(scenario)


def test_a_run_that_succeeds_and_a_child_that_fails_are_no_news(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row("r1"), record("r1"))
        await store.submit(msgspec.structs.replace(row("r1.2.0"), parent="r1", root="r1"), record("r1.2.0"))
        for run, outcome in (("r1.2.0", "failed"), ("r1", "finished")):
            epoch = await store.acquire(run, newest=99)
            await store.append(msgspec.structs.replace(commit(run, epoch=epoch), status="ended", outcome=outcome))
        assert await numbers(world) == []

    play(scenario)


def test_a_notice_is_routed_once(play: Play) -> None:
    async def scenario(world: World) -> None:
        store, other = await world.open(), await world.open()
        await store.add_notice(LOST)
        (notice,) = await store.unrouted_notices()
        assert notice == msgspec.structs.replace(LOST, number=notice.number)
        first = Delivery(notice=notice.number, channel="ops", next_at=10.0)
        await store.route_notice(notice.number, [first])
        await other.route_notice(notice.number, [msgspec.structs.replace(first, channel="all")])
        assert await store.unrouted_notices() == []
        assert await store.deliveries(due_by=9.0) == []
        assert await other.deliveries(due_by=10.0) == [(notice, first)]

    play(scenario)


def test_of_two_processes_that_take_a_delivery_one_has_it(play: Play) -> None:
    async def scenario(world: World) -> None:
        store, other = await world.open(), await world.open()
        await store.add_notice(LOST)
        (notice,) = await store.unrouted_notices()
        waiting = Delivery(notice=notice.number, channel="ops")
        sending = msgspec.structs.replace(waiting, status="sending", tries=1, next_at=60.0)
        await store.route_notice(notice.number, [waiting])
        assert await store.replace_delivery(sending, before=waiting)
        assert not await other.replace_delivery(sending, before=waiting)
        assert await other.deliveries(due_by=59.0) == []
        assert await other.deliveries(due_by=60.0) == [(notice, sending)]
        sent = msgspec.structs.replace(sending, status="sent")
        assert await other.replace_delivery(sent, before=sending)
        assert await store.deliveries(due_by=1e9) == []

    play(scenario)


def test_notices_go_with_their_run_and_with_time(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row("r1"), record("r1"))
        epoch = await store.acquire("r1", newest=99)
        await store.append(msgspec.structs.replace(commit(epoch=epoch), status="ended", outcome="failed"))
        await store.release("r1", epoch)
        for at in (5.0, 50.0):
            await store.add_notice(msgspec.structs.replace(LOST, at=at))
        for notice in await store.unrouted_notices(limit=2):
            await store.route_notice(notice.number, [Delivery(notice=notice.number, channel="ops")])
        await store.remove_notices(before=10.0)
        assert [it.kind for it, _ in await store.deliveries(due_by=0.0)] == ["failed"]
        assert [it.at for it in await store.unrouted_notices()] == [50.0]
        assert await store.prune() == 1
        assert await store.deliveries(due_by=1e9) == []

    play(scenario)


def test_a_run_with_several_problems_in_a_row_is_stuck_and_noted_once(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.submit(row("r1"), record("r1"))
        for number in range(1, STUCK_TRIES + 3):
            epoch = await store.acquire("r1", newest=99)
            await store.release("r1", epoch, force=True, due_at=300.0 + number, problem="its definition is missing")
            assert len(await store.unrouted_notices()) == (number >= STUCK_TRIES)
        (notice,) = await store.unrouted_notices()
        assert (notice.kind, notice.run_id, notice.text, notice.at) == ("stuck", "r1", "its definition is missing", 300.0 + STUCK_TRIES)

    play(scenario)
