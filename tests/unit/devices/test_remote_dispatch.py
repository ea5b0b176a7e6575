"""The dispatcher and remote devices: lost connections, timeouts, stops, and devices that join, leave and change."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from asterism.devices.dispatch.dispatcher import Dispatcher
from asterism.devices.dispatch.lane import FLAPPING_S
from asterism.devices.dispatch.remote import LATE_START_S, LOST_S
from asterism.devices.model.attempt import DeviceFound, DeviceLost, TaskError
from asterism.devices.port import Attempt, AttemptResult, Notices, RemoteDevice, Signs
from asterism.engine.kernel.machine import Event
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.errors import InvalidInput
from asterism.testing.device import Behaviour
from asterism.testing.loop import run
from asterism.testing.remote import FarSide, SimulatedRemoteDevice
from tests.support.device_signs import Heard

PROFILE = AgentProfile(device_id="far", kind="a2a", reattach=True, grace_s=60, concurrency=2)
Begin = Callable[..., "asyncio.Task[AttemptResult]"]
Scenario = Callable[["World"], Awaitable[None]]


def now() -> float:
    return asyncio.get_running_loop().time()


class World:
    """One remote device with its far side and its dispatcher; times are seconds from the start."""

    def __init__(self, behaviour: Behaviour, profile: AgentProfile = PROFILE, lost_s: float = LOST_S) -> None:
        self.far = FarSide(lambda _: behaviour)
        self.dispatcher = Dispatcher({"far": SimulatedRemoteDevice(profile, self.far)}, now, lost_s=lost_s)
        self.events: list[tuple[int, Event]] = []
        self.dispatcher.subscribe(lambda event, _: self.events.append((int(now()), event)))
        self.group: asyncio.TaskGroup

    def begin(self, key: str = "r:1.0", heard: Heard | None = None, **fields: Any) -> asyncio.Task[AttemptResult]:
        given = Attempt(key=key, run_id="r", task_id="t", device_id="far", skill="do", **fields)
        return self.group.create_task(self.dispatcher.perform(given, heard or Heard()))

    def stop(self, key: str = "r:1.0", until: float = 600.0, handle: str = "job-1") -> asyncio.Task[str]:
        given = Attempt(key=key, run_id="r", task_id="t", device_id="far", skill="do", again=True, handle=handle)
        return self.group.create_task(self.dispatcher.stop(given, until))

    def started(self) -> list[str]:
        return sorted(job.key for job in self.far.jobs)

    def statuses(self) -> list[str]:
        return [job.status for job in self.far.jobs]


def play(behaviour: Behaviour, scenario: Scenario, profile: AgentProfile = PROFILE, lost_s: float = LOST_S) -> World:
    async def whole() -> World:
        world = World(behaviour, profile, lost_s)
        async with world.dispatcher, asyncio.TaskGroup() as world.group:
            await scenario(world)
        return world

    return run(whole())


async def stop_of_lost(world: World) -> asyncio.Task[str]:
    """Return a stop of an attempt whose device is lost after three seconds."""
    attempt = world.begin()
    await asyncio.sleep(3)
    world.far.connect(is_up=False)
    attempt.cancel()
    return world.stop()


async def network(world: World, *, down_at: float, up_at: float) -> None:
    await asyncio.sleep(down_at - now())
    world.far.connect(is_up=False)
    await asyncio.sleep(up_at - now())
    world.far.connect(is_up=True)


# -- lost connections ------------------------------------------------------------------------------


def test_an_attempt_outlasts_a_lost_connection() -> None:
    async def scenario(world: World) -> None:
        first, second = world.begin("r:1.0"), world.begin("r:1.1")
        await network(world, down_at=3, up_at=50)
        assert await first == await second == AttemptResult(result=7)
        assert 50 < now() < 53

    world = play(Behaviour(duration_s=10, result=7), scenario)
    assert world.started() == ["r:1.0", "r:1.1"]
    assert [(at, type(event)) for at, event in world.events] == [(3, DeviceLost), (50, DeviceFound)]


def test_an_attempt_that_waits_when_the_connection_is_lost_starts_when_the_device_is_found() -> None:
    async def scenario(world: World) -> None:
        ends = [world.begin(f"r:1.{number}") for number in range(3)]
        await network(world, down_at=3, up_at=20)
        await asyncio.wait(ends)

    assert play(Behaviour(duration_s=10), scenario).started() == ["r:1.0", "r:1.1", "r:1.2"]


def test_an_attempt_is_lost_with_its_device_after_the_grace_period() -> None:
    async def scenario(world: World) -> None:
        attempt = world.begin()
        await asyncio.sleep(3)
        world.far.connect(is_up=False)
        error = (await attempt).error
        assert (error and error.code, int(now())) == ("device_lost", 63)
        refused = (await world.begin("r:2.0")).error
        assert (refused and refused.code, int(now())) == ("device_lost", 63)

    play(Behaviour(duration_s=10), scenario)


def test_a_device_that_does_not_find_its_attempts_loses_them_at_once() -> None:
    async def scenario(world: World) -> None:
        attempt = world.begin()
        await asyncio.sleep(3)
        world.far.connect(is_up=False)
        error = (await attempt).error
        assert (error and error.code, int(now())) == ("device_lost", 3)

    play(Behaviour(duration_s=10), scenario, msgspec.structs.replace(PROFILE, reattach=False))


def test_an_attempt_whose_start_had_no_reply_is_looked_for_and_not_started_twice() -> None:
    async def scenario(world: World) -> None:
        world.far.deaf = True
        attempt = world.begin()
        await asyncio.sleep(2.5)
        world.far.deaf = False
        assert await attempt == AttemptResult(result=7)

    assert play(Behaviour(duration_s=10, result=7), scenario).started() == ["r:1.0"]


def test_an_attempt_that_never_reaches_its_device_is_lost_after_the_grace_period() -> None:
    async def scenario(world: World) -> None:
        world.far.deaf = True
        error = (await world.begin()).error
        assert (error and error.code, 60 <= now() <= 72) == ("device_lost", True)

    play(Behaviour(duration_s=1000), scenario)


def test_a_device_that_flaps_is_quarantined() -> None:
    async def scenario(world: World) -> None:
        attempt = world.begin()
        for number in range(5):
            await network(world, down_at=10 * number + 3, up_at=10 * number + 6)
        error = (await attempt).error
        assert error is not None
        assert (error.code, int(now())) == ("device_lost", 103)
        assert "was lost 5 times within 600 s" in error.message
        await asyncio.sleep(46 + FLAPPING_S + 1 - now())
        assert (await world.begin("r:2.0", timeout_s=1)).error != error

    world = play(Behaviour(hangs=True), scenario)
    assert [at for at, event in world.events if isinstance(event, DeviceFound)] == [6, 16, 26, 36, 646]


class Unreachable(RemoteDevice):
    """A remote device whose every attempt fails after a second."""

    def __init__(self) -> None:
        super().__init__(PROFILE)

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        await asyncio.sleep(1)
        return AttemptResult(error=TaskError(code="device_lost", message="no route to host"))

    async def stop(self, attempt: Attempt) -> str:
        return ""

    async def watch(self, notices: Notices) -> None:
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("seed", range(20))
def test_a_cancel_at_the_moment_of_a_failure_ends_the_attempt(seed: int) -> None:
    async def whole() -> float:
        async with Dispatcher({"far": Unreachable()}, now) as dispatcher:
            given = Attempt(key="r:1.0", run_id="r", task_id="t", device_id="far", skill="do")
            performing = asyncio.create_task(dispatcher.perform(given, Heard()))
            await asyncio.sleep(1)
            performing.cancel()
            await asyncio.wait([performing])
            return now()

    assert run(whole(), seed) < 2


# -- stopping --------------------------------------------------------------------------------------


def test_a_cancel_detaches_and_a_stop_ends_the_attempt() -> None:
    async def scenario(world: World) -> None:
        attempt = world.begin()
        await asyncio.sleep(3)
        attempt.cancel()
        await asyncio.wait([attempt])
        assert world.statuses() == ["running"]
        assert await world.stop() == ""
        assert (world.statuses(), int(now())) == (["stopped"], 3)

    play(Behaviour(hangs=True), scenario)


def test_a_stop_waits_until_the_attempt_is_performed_no_longer_and_uses_its_handle() -> None:
    async def scenario(world: World) -> None:
        attempt = world.begin()
        await asyncio.sleep(3)
        stop = world.stop(handle="")
        await asyncio.sleep(2)
        assert world.statuses() == ["running"]
        attempt.cancel()
        assert await stop == ""
        assert (world.statuses(), int(now())) == (["stopped"], 5)

    play(Behaviour(hangs=True), scenario)


def test_a_stop_without_a_handle_looks_again_for_a_late_start() -> None:
    async def scenario(world: World) -> None:
        assert await world.stop(handle="") == ""
        assert now() >= LATE_START_S

    play(Behaviour(hangs=True), scenario)


def test_a_stop_is_tried_until_the_device_is_found() -> None:
    async def scenario(world: World) -> None:
        stop = await stop_of_lost(world)
        await asyncio.sleep(200)
        world.far.connect(is_up=True)
        assert await stop == ""
        assert int(now()) == 203

    assert play(Behaviour(hangs=True), scenario, lost_s=math.inf).statuses() == ["stopped"]


def test_a_stop_is_given_up_soon_while_its_device_stays_lost() -> None:
    """G1: a command did not end for ten minutes after its run had failed, was cancelled, or waited for a person."""

    async def scenario(world: World) -> None:
        world.begin().cancel()
        world.far.connect(is_up=False)
        assert await world.stop() == "t may still run on far: no route to host"
        assert int(now()) == LOST_S

    play(Behaviour(hangs=True), scenario)


def test_a_device_that_is_found_in_time_is_asked_again() -> None:
    async def scenario(world: World) -> None:
        stop = await stop_of_lost(world)
        await asyncio.sleep(LOST_S - 1)
        world.far.connect(is_up=True)
        assert await stop == ""

    assert play(Behaviour(hangs=True), scenario).statuses() == ["stopped"]


def test_what_may_still_run_is_named_when_the_time_for_a_stop_is_over() -> None:
    async def scenario(world: World) -> None:
        world.begin().cancel()
        world.far.connect(is_up=False)
        assert await world.stop(until=100) == "t may still run on far: no route to host"
        assert 100 <= now() <= 101

    play(Behaviour(hangs=True), scenario, lost_s=math.inf)


def test_a_device_that_finds_no_attempt_again_is_asked_once() -> None:
    async def scenario(world: World) -> None:
        world.begin().cancel()
        world.far.connect(is_up=False)
        assert await world.stop(handle="") == "t may still run on far: no route to host"
        assert now() < 1

    play(Behaviour(hangs=True), scenario, msgspec.structs.replace(PROFILE, reattach=False))


def test_a_stop_on_a_device_that_is_not_there_names_the_attempt() -> None:
    async def scenario(world: World) -> None:
        given = Attempt(key="r:1.0", run_id="r", task_id="t", device_id="gone", skill="do")
        assert await world.dispatcher.stop(given, 0.0) == "t may still run on gone, which this process cannot reach"

    play(Behaviour(), scenario)


def test_a_timeout_stops_the_attempt_before_it_is_reported() -> None:
    async def scenario(world: World) -> None:
        error = (await world.begin(timeout_s=5)).error
        assert error == TaskError(code="timeout", message="it took longer than its timeout of 5 s")
        assert world.statuses() == ["stopped"]

    play(Behaviour(hangs=True), scenario)


def test_a_timeout_counts_from_the_first_start() -> None:
    async def scenario(world: World) -> None:
        attempt = world.begin(timeout_s=30)
        await network(world, down_at=3, up_at=20)
        error = (await attempt).error
        assert (error and error.code, int(now())) == ("timeout", 30)

    play(Behaviour(hangs=True), scenario)


def test_a_timeout_without_connection_names_what_may_still_run() -> None:
    async def scenario(world: World) -> None:
        attempt = world.begin(timeout_s=5)
        await asyncio.sleep(3)
        world.far.deaf = True
        error = (await attempt).error
        assert error is not None
        assert error.code == "timeout"

    play(Behaviour(hangs=True), scenario)


def test_closing_the_dispatcher_stops_nothing_on_other_computers() -> None:
    async def whole() -> list[str]:
        world = World(Behaviour(hangs=True))
        async with world.dispatcher:
            performing = asyncio.create_task(
                world.dispatcher.perform(Attempt(key="r:1.0", run_id="r", task_id="t", device_id="far", skill="do"), Heard())
            )
            await asyncio.sleep(3)
        await performing
        return world.statuses()

    assert run(whole()) == ["running"]


# -- devices that join, leave and change -----------------------------------------------------------


def test_a_device_that_joins_performs_attempts_and_one_that_leaves_does_not() -> None:
    async def scenario(world: World) -> None:
        new = SimulatedRemoteDevice(msgspec.structs.replace(PROFILE, device_id="new"), FarSide(lambda _: Behaviour(result=1)))
        world.dispatcher.add(new)
        given = Attempt(key="r:9.0", run_id="r", task_id="t", device_id="new", skill="do")
        assert await world.dispatcher.perform(given, Heard()) == AttemptResult(result=1)
        assert world.dispatcher.initial_events() == [(DeviceFound(device="new", profile=new.profile), "device:new")]
        world.dispatcher.remove("new")
        assert (await world.dispatcher.perform(given, Heard())).error
        left = DeviceLost(device="new", reason="it has left the fleet", removed=True)
        assert world.dispatcher.initial_events() == [(left, "device:new")]

    world = play(Behaviour(), scenario)
    assert [type(event) for _, event in world.events] == [DeviceFound, DeviceLost]


def test_a_device_cannot_join_twice() -> None:
    async def scenario(world: World) -> None:
        try:
            world.dispatcher.add(SimulatedRemoteDevice(PROFILE, world.far))
        except InvalidInput as error:
            assert str(error) == "there is a device 'far' already"  # noqa: PT017 - raised within a coroutine
        else:
            raise AssertionError

    play(Behaviour(), scenario)


def test_a_changed_profile_is_reported_to_the_runs_and_counts_at_once() -> None:
    wide = msgspec.structs.replace(PROFILE, concurrency=3, skills=(Skill(name="new"),))

    async def scenario(world: World) -> None:
        ends = [world.begin(f"r:1.{number}") for number in range(3)]
        await asyncio.sleep(1)
        assert len(world.started()) == 2
        world.dispatcher.find("far", wide)
        world.dispatcher.find("far", wide)
        await asyncio.sleep(1)
        assert len(world.started()) == 3
        await asyncio.wait(ends)

    world = play(Behaviour(duration_s=10), scenario)
    assert world.events == [(1, DeviceFound(device="far", profile=wide))]


class Restless(RemoteDevice):
    """A remote device whose ``watch`` fails at first, then reports that it is found, and ends."""

    def __init__(self) -> None:
        super().__init__(PROFILE)
        self.watched: list[float] = []

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        return AttemptResult()

    async def stop(self, attempt: Attempt) -> str:
        return ""

    async def watch(self, notices: Notices) -> None:
        self.watched.append(now())
        if len(self.watched) == 1:
            raise OSError("refused")
        notices.found()


def test_a_watch_that_ends_begins_again_at_growing_intervals() -> None:
    device, events = Restless(), list[Event]()

    async def whole() -> None:
        dispatcher = Dispatcher({"far": device}, now, chance=lambda: 0.0)
        dispatcher.subscribe(lambda event, _: events.append(event))
        async with dispatcher:
            await asyncio.sleep(20)

    run(whole())
    assert device.watched == [0, 1, 3, 7, 15]
    lost = "device 'far' is lost: its connection failed: OSError: refused"
    assert events == [DeviceLost(device="far", reason=lost), DeviceFound(device="far")]


class Clumsy(Restless):
    """A remote device that makes an error of its own of the first cancel of its ``watch``."""

    async def watch(self, notices: Notices) -> None:
        self.watched.append(now())
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            if len(self.watched) == 1:
                raise OSError("the connection was closed") from None
            raise


def test_a_device_that_makes_an_error_of_a_cancel_is_not_watched_again() -> None:
    device = Clumsy()

    async def whole() -> None:
        async with asyncio.timeout(100):
            async with Dispatcher({"far": device}, now):
                await asyncio.sleep(1)
            assert now() == 1

    run(whole())
    assert device.watched == [0]


class Grouped(Restless):
    """A remote device whose ``watch`` fails in a group of tasks at first."""

    async def watch(self, notices: Notices) -> None:
        self.watched.append(now())
        if len(self.watched) == 1:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.refused())
        notices.found()

    async def refused(self) -> None:
        raise OSError("refused")


def test_a_watch_that_fails_in_a_group_of_tasks_begins_again() -> None:
    device = Grouped()

    async def whole() -> None:
        async with Dispatcher({"far": device}, now, chance=lambda: 0.0):
            await asyncio.sleep(10)

    run(whole())
    assert device.watched == [0, 1, 3, 7]


class Attaching(RemoteDevice):
    """A remote device that reports two handles, and a third one when it is cancelled."""

    def __init__(self) -> None:
        super().__init__(PROFILE)

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        await signs.attached("first")
        await signs.attached("second")
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await signs.attached("third")
            raise
        return AttemptResult()

    async def stop(self, attempt: Attempt) -> str:
        return f"stopped {attempt.handle}"

    async def watch(self, notices: Notices) -> None:
        await asyncio.get_running_loop().create_future()


def test_only_the_first_handle_counts_and_an_attempt_that_was_given_up_confirms_none() -> None:
    heard = Heard()

    async def whole() -> str:
        async with Dispatcher({"far": Attaching()}, now) as dispatcher:
            given = Attempt(key="r:1.0", run_id="r", task_id="t", device_id="far", skill="do")
            performing = asyncio.create_task(dispatcher.perform(given, heard))
            await asyncio.sleep(1)
            stopping = asyncio.create_task(dispatcher.stop(given, now()))
            await asyncio.sleep(1)
            performing.cancel()
            await asyncio.wait([performing])
            return await stopping

    assert run(whole()) == "t may still run on far: stopped first"
    assert heard.handles == ["first"]


def test_a_run_that_is_acquired_later_hears_why_a_device_is_lost() -> None:
    async def scenario(world: World) -> None:
        world.dispatcher.lose("far", "no route to host")
        reason = "device 'far' is lost: no route to host"
        assert world.dispatcher.initial_events() == [(DeviceLost(device="far", reason=reason), "device:far")]

    play(Behaviour(), scenario)


def test_a_device_that_could_not_be_reached_is_lost_from_the_start_until_it_is_found() -> None:
    async def whole() -> None:
        far = FarSide(lambda _: Behaviour())
        device = SimulatedRemoteDevice(PROFILE, far)
        device.unreachable = "no route to host"
        dispatcher = Dispatcher({"far": device}, now)
        lost = DeviceLost(device="far", reason="device 'far' is lost: no route to host")
        assert dispatcher.initial_events() == [(lost, "device:far")]
        async with dispatcher:
            await asyncio.sleep(1)
            assert dispatcher.initial_events() == []
            given = Attempt(key="r:1.0", run_id="r", task_id="t", device_id="far", skill="do")
            assert (await dispatcher.perform(given, Heard())).error is None

    run(whole())
