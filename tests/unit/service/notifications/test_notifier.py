"""The notifier over a store: each message at least once, a repetition marked."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import msgspec

from asterism.devices.model.attempt import DeviceFound, DeviceLost
from asterism.engine.ports.notices import Channel, Notice
from asterism.engine.ports.store import RunRow
from asterism.errors import StoreUnavailable
from asterism.service.notifications.message import NoticeMessage
from asterism.service.notifications.notifier import AGAIN_S, LostDevices, Notifier
from asterism.stores.memory import MemoryDatabase, MemoryStore
from asterism.testing.loop import run
from tests.contracts.test_stores import commit, inquiry, record, row
from tests.support.memory_stores import failing_store
from tests.unit.service.notifications.test_message import OPS, QUESTIONS
from tests.unit.service.schedules.test_firing import HOURLY
from tests.unit.service.schedules.test_scheduler import Hand


class Receiver:
    """Remembers messages; refuses the first ones."""

    def __init__(self, refusals: int = 0) -> None:
        self.messages: list[tuple[str, NoticeMessage]] = []
        self.refusals = refusals

    async def __call__(self, channel: Channel, message: NoticeMessage) -> str:
        self.messages.append((channel.name, message))
        self.refusals -= 1
        return "" if self.refusals < 0 else "refused"


class Runs:
    """What there is to say of each run.

    Args:
        named: the channels that it names.
    """

    def __init__(self, *named: str) -> None:
        self._named = named

    async def reason(self, _: RunRow) -> str:
        return "no luck"

    async def channels(self, _: RunRow) -> tuple[str, ...]:
        return self._named


async def asking(store: MemoryStore) -> int:
    await store.submit(row("r1"), record("r1"))
    epoch = await store.acquire("r1", newest=99)
    await store.append(msgspec.structs.replace(commit(epoch=epoch), opened=[inquiry()]))
    return epoch


def test_a_question_is_sent_once_to_each_channel() -> None:
    async def scenario() -> None:
        store, clock, receiver = MemoryStore(), Hand(150.0), Receiver()
        notifier = Notifier(store, clock, [OPS, QUESTIONS], receiver, runs=Runs())
        await asking(store)
        await notifier.deliver()
        assert receiver.messages == []
        for at in (156.0, 157.0, 5000.0):
            clock.at = at
            await notifier.deliver()
        assert sorted(name for name, _ in receiver.messages) == ["ops", "questions"]
        assert {message.title for _, message in receiver.messages} == {"A question waits: count the files — ja"}

    asyncio.run(scenario())


def test_a_question_that_was_answered_at_once_is_not_sent() -> None:
    async def scenario() -> None:
        store, clock, receiver = MemoryStore(), Hand(150.0), Receiver()
        notifier = Notifier(store, clock, [OPS], receiver, runs=Runs())
        epoch = await asking(store)
        await notifier.deliver()
        await store.append(msgspec.structs.replace(commit(epoch=epoch, after=2), closed=[("r1:2.0", "approve by ada")]))
        clock.at = 200.0
        await notifier.deliver()
        assert receiver.messages == []
        assert await store.deliveries(due_by=1e9) == []

    asyncio.run(scenario())


def test_a_channel_that_refuses_is_tried_again_and_delays_no_other() -> None:
    async def scenario() -> None:
        store, clock, receiver = MemoryStore(), Hand(200.0), Receiver(refusals=3)
        notifier = Notifier(store, clock, [OPS], receiver, runs=Runs())
        await asking(store)
        for _ in range(200):
            await notifier.deliver()
            clock.at += 1.0
        assert len(receiver.messages) == 4
        assert not any(message.repeated for _, message in receiver.messages)

    asyncio.run(scenario())


def test_a_kill_at_any_write_loses_no_message_and_a_second_copy_says_so() -> None:
    async def scenario(stop_at: int) -> tuple[bool, list[bool]]:
        database, clock, receiver, writes, is_dead = MemoryDatabase(), Hand(200.0), Receiver(), itertools.count(), False

        def fails() -> bool:
            nonlocal is_dead
            is_dead = is_dead or next(writes) == stop_at
            return is_dead

        await asking(MemoryStore(database))
        victim = failing_store(fails, database)
        with contextlib.suppress(StoreUnavailable):
            await Notifier(victim, clock, [OPS], receiver, runs=Runs()).deliver()
        survivor = Notifier(MemoryStore(database), clock, [OPS], receiver, runs=Runs())
        for _ in range(3):
            clock.at += 61.0
            await survivor.deliver()
        return is_dead, [message.repeated for _, message in receiver.messages]

    outcomes = [asyncio.run(scenario(stop_at)) for stop_at in range(6)]
    assert outcomes[0] == (True, [False])
    assert (True, [False, True]) in outcomes
    assert all(copies in ([False], [False, True]) for _, copies in outcomes)


def test_a_channel_that_left_the_fleet_file_gets_nothing_more() -> None:
    async def scenario() -> None:
        store, clock, receiver = MemoryStore(), Hand(200.0), Receiver(refusals=1)
        await asking(store)
        await Notifier(store, clock, [OPS], receiver, runs=Runs()).deliver()
        clock.at = 300.0
        await Notifier(store, clock, [], receiver, runs=Runs()).deliver()
        assert len(receiver.messages) == 1
        assert await store.deliveries(due_by=1e9) == []

    asyncio.run(scenario())


def test_the_message_of_a_failure_says_why() -> None:
    async def scenario() -> None:
        store, clock, receiver = MemoryStore(), Hand(200.0), Receiver()
        await store.submit(row("r1"), record("r1"))
        epoch = await store.acquire("r1", newest=99)
        await store.append(msgspec.structs.replace(commit(epoch=epoch), status="ended", outcome="failed"))
        await Notifier(store, clock, [OPS], receiver, runs=Runs()).deliver()
        ((_, message),) = receiver.messages
        assert (message.kind, message.text) == ("failed", "no luck\nasterism show r1")

    asyncio.run(scenario())


def test_a_run_names_its_channels() -> None:
    async def scenario(*named: str) -> list[str]:
        store, receiver = MemoryStore(), Receiver()
        await asking(store)
        await Notifier(store, Hand(200.0), [OPS, QUESTIONS], receiver, runs=Runs(*named)).deliver()
        return sorted(name for name, _ in receiver.messages)

    assert asyncio.run(scenario("ops")) == ["ops"]
    assert asyncio.run(scenario("ops", "gone")) == ["ops"]
    assert asyncio.run(scenario("gone")) == asyncio.run(scenario()) == ["ops", "questions"]


def test_a_schedule_that_could_not_start_a_run_is_reported_to_the_channels_that_it_names() -> None:
    async def scenario() -> None:
        store, clock, receiver = MemoryStore(), Hand(150.0), Receiver()
        night = Channel(name="night", url="json://night", on=())
        notifier = Notifier(store, clock, [OPS, night], receiver, runs=Runs())
        await store.add_schedule(msgspec.structs.replace(HOURLY, options={"notify": ["night"]}))
        await store.add_notice(Notice(kind="not_started", subject=HOURLY.name, text="no file", at=150.0))
        await store.add_notice(Notice(kind="not_started", subject="removed", text="no file", at=150.0))
        await notifier.deliver()
        assert sorted((name, message.title.rpartition(" ")[2]) for name, message in receiver.messages) == [
            ("night", HOURLY.name),
            ("ops", "removed"),
        ]

    asyncio.run(scenario())


async def noted(lost_devices: LostDevices) -> list[Notice]:
    """Return what the devices write into a store within a second of virtual time."""
    store = MemoryStore()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            await lost_devices.serve(store)
    return await store.unrouted_notices()


def test_a_device_is_noted_when_it_is_lost_and_again_only_after_a_while() -> None:
    clock = Hand(1000.0)
    lost_devices = LostDevices(clock)
    lost = DeviceLost(device="robot", reason="no answer")
    for after_s in (0.0, 1.0, AGAIN_S - 2.0, 1.0):
        clock.at += after_s
        lost_devices.note(lost, "device:robot")
        lost_devices.note(DeviceFound(device="robot"), "device:robot")
    found = run(noted(lost_devices))
    assert [(it.kind, it.subject, it.text, it.at) for it in found] == [
        ("device_lost", "robot", "no answer", 1000.0),
        ("device_lost", "robot", "no answer", 1000.0 + AGAIN_S),
    ]


def test_a_device_that_left_the_fleet_is_no_news() -> None:
    lost_devices = LostDevices(Hand(1000.0))
    lost_devices.note(DeviceLost(device="robot", reason="it left the fleet", removed=True), "device:robot")
    assert run(noted(lost_devices)) == []
