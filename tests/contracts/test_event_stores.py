"""Contract of stores for events: which wait gets which event, and each once, whoever compares them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from asterism.engine.control.waits import EventTaken
from asterism.engine.ports.events import Deliver, EventRow, OpenWait
from asterism.engine.ports.store import InquiryRow, Store
from asterism.engine.runtime.run_status import CANCELLED
from asterism.errors import Refused
from tests.contracts.test_stores import Play, World, commit, play, record, row, with_

__all__ = ["play"]


def event(
    name: str, data: Any = None, *, at: float = 200.0, keep_s: float = 100.0, deliver: Deliver = "all", tenant: str = "t"
) -> EventRow:
    text = msgspec.json.encode(data).decode()
    return EventRow(tenant=tenant, event_id=name, name="paid", data=text, deliver=deliver, at=at, expires_at=at + keep_s, actor="bob")


async def waiting(store: Store, run_id: str, *numbers: Any, created_at: float = 100.0) -> None:
    """A run whose tasks wait, each for an event with its number; None for any."""
    await store.submit(msgspec.structs.replace(row(run_id, created_at=created_at), parent="", due_at=None), record(run_id))
    assert await store.acquire(run_id, newest=10**9) == 1
    opened = [wait(run_id, index, number) for index, number in enumerate(numbers)]
    await store.append(with_(commit(run_id), opened=opened))


def wait(run_id: str, index: int, number: Any) -> InquiryRow:
    subject = msgspec.json.encode({"match": "", "values": {"number": number}}).decode()
    return InquiryRow(inquiry_id=f"{run_id}:2.{index}", run_id=run_id, question="", verbs=(), subject=subject, asked_at=150.0, event="paid")


def has_number(subject: dict[str, Any], data: Any) -> bool:
    number: Any = subject["values"]["number"]
    return number is None or bool(number == data)


def taken(waits: OpenWait, it: EventRow) -> tuple[str, str]:
    return "event_taken", msgspec.json.encode(EventTaken(effect_id=waits.inquiry_id, event_id=it.event_id)).decode()


async def match(store: Store, now: float = 210.0) -> None:
    while await store.match_events({"constellation": has_number}, taken, now=now):
        pass


async def got(store: Store, *runs: str) -> dict[str, str]:
    """The event that each wait has got, by the id of the wait."""
    rows = await store.inbox(list(runs))
    return {it.key: msgspec.json.decode(it.body)["event"] for it in rows}


def test_each_wait_gets_the_oldest_event_that_it_matches_whichever_came_first(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.add_event(event("e1", 1))
        await waiting(store, "r1", 1, 2, None)
        await store.add_event(event("e2", 2))
        await store.add_event(event("e3", 2))
        await match(store)
        assert await got(store, "r1") == {"r1:2.0": "e1", "r1:2.1": "e2", "r1:2.2": "e1"}
        assert {it.event_id: it.taken for it in await store.events("t")} == {"e3": 0, "e2": 1, "e1": 2}
        assert await store.inquiries(run_id="r1") == []
        assert len(await store.inquiries(run_id="r1", events=True)) == 3

    play(scenario)


def test_a_wait_gets_no_event_of_before_its_run_of_another_tenant_or_past_its_time(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await store.add_event(event("before", at=99.0, keep_s=1000.0))
        await store.add_event(event("foreign", tenant="u"))
        await store.add_event(event("late", keep_s=5.0))
        await waiting(store, "r1", None)
        await match(store)
        assert await got(store, "r1") == {}
        assert [it.event_id for it in await store.events("t", dead_by=210.0)] == ["late"]

    play(scenario)


def test_an_event_for_one_goes_to_the_oldest_wait_and_to_the_next_if_that_ends_without_taking_it(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await waiting(store, "r1", 1)
        await waiting(store, "r2", 1)
        await store.add_event(event("e1", 1, deliver="one"))
        await match(store)
        assert await got(store, "r1", "r2") == {"r1:2.0": "e1"}
        ends = with_(commit("r1", after=2), closed=[("r1:2.0", CANCELLED)], folded=[("r1:2.0", "it does not wait any more")])
        await store.append(ends)
        await match(store)
        assert await got(store, "r1", "r2") == {"r2:2.0": "e1"}
        assert [it.taken for it in await store.events("t")] == [1]

    play(scenario)


def test_an_event_under_the_same_id_is_the_same_one(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await waiting(store, "r1", 1, 1)
        assert (await store.add_event(event("e1", 1))).data == "1"
        assert (await store.add_event(event("e1", 2))).data == "1"
        await match(store)
        await store.add_event(event("e1", 1))
        await match(store)
        assert len(await store.events("t")) == 1
        assert await got(store, "r1") == {"r1:2.0": "e1", "r1:2.1": "e1"}

    play(scenario)


def test_a_full_table_refuses_further_events_and_not_those_that_are_in_it(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asterism.stores.sqlite_events.MAX_EVENTS", 1)

    async def scenario(world: World) -> None:
        store = await world.open()
        await store.add_event(event("e1", 1))
        assert (await store.add_event(event("e1", 1))).event_id == "e1"
        with pytest.raises(Refused, match="there are 1 events already; send them with a shorter keep_s"):
            await store.add_event(event("e2", 1))

    play(scenario)


def test_what_is_sent_makes_a_parked_run_due(play: Play) -> None:
    async def scenario(world: World) -> None:
        store = await world.open()
        await waiting(store, "r1", 1)
        await store.release("r1", 1)
        await store.add_event(event("e1", 1))
        await match(store)
        assert (await store.run("r1")).due_at == 210.0

    play(scenario)


def test_processes_that_compare_at_once_give_each_wait_one_event(play: Play) -> None:
    async def scenario(world: World) -> None:
        stores = [await world.open() for _ in range(3)]
        for number in range(20):
            await waiting(stores[0], f"r{number}", number % 5)
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(stores[number % 3].add_event(event(f"e{number}", number % 5, deliver="one" if number % 2 else "all")))
                group.create_task(match(stores[(number + 1) % 3]))
        await match(stores[0])
        found = await got(stores[0], *(f"r{number}" for number in range(20)))
        assert len(found) == 20
        assert all(int(it[1:]) % 5 == int(wait_id[1:].partition(":")[0]) % 5 for wait_id, it in found.items())
        ones = [it for it in found.values() if int(it[1:]) % 2]
        assert len(ones) == len(set(ones))
        assert sum(it.taken for it in await stores[0].events("t")) == 20

    play(scenario)
