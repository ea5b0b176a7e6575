from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from asterism.devices.dispatch.dispatcher import Dispatcher
from asterism.devices.dispatch.places import Places
from asterism.devices.model.attempt import DeviceFound, DeviceLost, TaskError, request_shown
from asterism.devices.port import Attempt, AttemptResult, AttemptSigns, Device, Signs
from asterism.engine.control.run_control import FleetGuarded
from asterism.engine.kernel.guards import DeviceGuards, SkillGuard, digest_of
from asterism.engine.kernel.machine import Event
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.errors import InvalidInput
from asterism.testing.device import Behaviour, FakeDevice, Faults, PerformanceLog, Script, by_skill
from asterism.testing.loop import run
from tests.support.device_signs import Heard

EPOCH = 1_000_000.0


def now() -> float:
    return asyncio.get_running_loop().time()


def clock() -> float:
    return EPOCH + now()


class World:
    """One device, the laptop, and its dispatcher, with a record of both. Times are seconds from the start."""

    def __init__(self, script: Script | None = None, concurrency: int = 1, faults: Faults | None = None, **options: Any) -> None:
        self.performance_log = PerformanceLog(clock)
        profile = AgentProfile(device_id="laptop", concurrency=concurrency)
        self.device = FakeDevice(profile, self.performance_log, script, faults)
        self.dispatcher = Dispatcher({"laptop": self.device}, clock, **options)
        self.arrived: list[str] = []
        self.ends: dict[str, tuple[float, AttemptResult]] = {}
        self.notices: list[tuple[float, Event, str]] = []
        self.dispatcher.subscribe(lambda event, actor: self.notices.append((now(), event, actor)))

    async def perform(self, key: str, run_id: str = "r", signs: AttemptSigns | None = None, **fields: Any) -> AttemptResult:
        attempt = Attempt(**{"key": key, "run_id": run_id, "task_id": key, "device_id": "laptop", "skill": key, **fields})
        self.arrived.append(key)
        end = await self.dispatcher.perform(attempt, signs or Heard())
        self.ends[key] = (now(), end)
        return end

    def started(self) -> list[tuple[float, str]]:
        return [(entry.started_at - EPOCH, entry.key) for entry in self.performance_log.performances]

    def ended(self, key: str) -> tuple[float, str]:
        at, end = self.ends[key]
        return at, end.error.code if end.error else "completed"


def live(world: World, *steps: Callable[[asyncio.TaskGroup], Awaitable[None] | None], seed: int = 0) -> None:
    """Run the steps inside the open dispatcher and wait for all their tasks; check that nothing is left."""

    async def main() -> None:
        async with world.dispatcher, asyncio.TaskGroup() as group:
            for step in steps:
                waiting = step(group)
                if waiting is not None:
                    await waiting
        assert world.performance_log.running_keys == []
        assert world.dispatcher.queue_depth("laptop") == 0
        assert world.dispatcher.running("laptop") == 0

    run(main(), seed)


def begin(world: World, key: str, **fields: Any) -> Callable[[asyncio.TaskGroup], Awaitable[None]]:
    """Begin an attempt and let it arrive, so that the next one comes later whatever the seed."""

    async def step(group: asyncio.TaskGroup) -> None:
        group.create_task(world.perform(key, **fields), name=key)
        while key not in world.arrived:  # noqa: ASYNC110 - it takes a few steps, no time
            await asyncio.sleep(0)

    return step


def at(when: float, act: Callable[[], object]) -> Callable[[asyncio.TaskGroup], Awaitable[None]]:
    async def step() -> None:
        await asyncio.sleep(when - now())
        act()

    return lambda _: step()


def cancel(key: str) -> None:
    (task,) = (task for task in asyncio.all_tasks() if task.get_name() == key)
    task.cancel()


# -- turns -------------------------------------------------------------------------------------------


def test_a_free_device_starts_at_once_and_its_result_comes_back() -> None:
    world = World(by_skill({"a": Behaviour(duration_s=3, result={"rows": 7})}))
    live(world, begin(world, "a"))
    assert world.ends == {"a": (3.0, AttemptResult(result={"rows": 7}))}


def test_the_error_of_a_skill_is_returned_unchanged() -> None:
    error = TaskError(code="raised", message="ValueError: no")
    world = World(by_skill({"a": Behaviour(error=error)}))
    live(world, begin(world, "a"))
    assert world.ends["a"] == (1.0, AttemptResult(error=error))


def test_runs_take_turns_however_many_attempts_one_of_them_has() -> None:
    world = World()
    live(world, *(begin(world, key, run_id=key[0]) for key in ("a0", "a1", "a2", "a3", "b0", "b1", "c0")))
    assert world.started() == [(0, "a0"), (1, "b0"), (2, "c0"), (3, "a1"), (4, "b1"), (5, "a2"), (6, "a3")]


def test_within_a_run_the_higher_priority_goes_first_then_the_earlier() -> None:
    world = World()
    priorities = {"first": 0, "low": -1, "normal": 0, "high": 5, "normal too": 0, "high too": 5}
    live(world, *(begin(world, key, priority=priority) for key, priority in priorities.items()))
    assert [key for _, key in world.started()] == ["first", "high", "high too", "normal", "normal too", "low"]


def test_a_priority_does_not_push_other_runs_aside() -> None:
    world = World()
    live(
        world,
        begin(world, "a0", run_id="A"),
        *(begin(world, f"a{n}", run_id="A", priority=9) for n in (1, 2)),
        begin(world, "b0", run_id="B"),
    )
    assert [key for _, key in world.started()] == ["a0", "b0", "a1", "a2"]


@pytest.mark.parametrize("seed", range(20))
def test_of_those_that_arrive_together_the_highest_priority_starts_first(seed: int) -> None:
    world = World()

    async def main() -> None:
        async with world.dispatcher, asyncio.TaskGroup() as group:
            for key, priority in {"low": 0, "middle": 5, "high": 9}.items():
                group.create_task(world.perform(key, priority=priority))

    run(main(), seed)
    assert [key for _, key in world.started()] == ["high", "middle", "low"]


def test_an_attempt_that_has_to_wait_is_queued_and_one_with_a_free_slot_is_not() -> None:
    world = World(concurrency=2)
    heard = {key: Heard() for key in "abc"}
    live(world, *(begin(world, key, signs=signs) for key, signs in heard.items()))
    assert {key: signs.signs for key, signs in heard.items()} == {"a": ["begun"], "b": ["begun"], "c": ["queued", "begun"]}


def test_two_slots_perform_two_at_a_time() -> None:
    world = World(concurrency=2)
    live(world, *(begin(world, key) for key in "abcd"))
    assert sorted(world.started()) == [(0, "a"), (0, "b"), (1, "c"), (1, "d")]


def test_an_attempt_runs_in_the_context_of_its_own_caller() -> None:
    trace: ContextVar[str] = ContextVar("trace", default="none")
    seen: list[tuple[str, str]] = []

    def script(attempt: Attempt) -> Behaviour:
        seen.append((attempt.key, trace.get()))
        return Behaviour()

    world = World(script)

    async def with_trace(key: str) -> None:
        trace.set(f"trace of {key}")
        await world.perform(key)

    async def main() -> None:
        async with world.dispatcher, asyncio.TaskGroup() as group:
            for key in "ab":
                group.create_task(with_trace(key))

    run(main())
    assert sorted(seen) == [("a", "trace of a"), ("b", "trace of b")]


@pytest.mark.parametrize("seed", range(200))
def test_under_faults_and_cancels_slots_are_never_exceeded_and_everybody_is_answered(seed: int) -> None:
    rng = random.Random(seed)
    slots = rng.randint(1, 3)
    faults = Faults(seed=seed, raised=0.1, crashed=0.1, hangs=0.1, slow=0.1, stubborn=0.1, breaks=0.1)
    most = 0

    def script(_: Attempt) -> Behaviour:
        nonlocal most
        most = max(most, len(world.performance_log.running_keys) + 1)
        return Behaviour(duration_s=rng.choice((0, 0.5, 2)))

    world = World(script, slots, faults)

    async def one(number: int) -> None:
        await asyncio.sleep(rng.random() * 10)
        deadline = rng.choice((None, clock() + 10))
        await world.perform(f"k{number}", run_id=f"r{number % 3}", timeout_s=rng.choice((1, 5)), deadline=deadline)

    async def main() -> None:
        async with world.dispatcher:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(number)) for number in range(30)]
                for _ in range(20):
                    await asyncio.sleep(rng.random())
                    rng.choice(tasks).cancel()
                    if rng.random() < 0.1:
                        world.dispatcher.lose("laptop")
                        world.dispatcher.find("laptop")
            assert world.dispatcher.queue_depth("laptop") == 0
        assert world.performance_log.running_keys == []
        assert all(task.cancelled() or task.exception() is None for task in tasks)
        assert len({entry.key for entry in world.performance_log.performances}) == len(world.performance_log.performances)

    run(main(), seed)
    assert 0 < most <= slots


# -- bounds in time ----------------------------------------------------------------------------------


def test_a_timeout_counts_from_the_start_on_the_device_and_kills() -> None:
    world = World(by_skill({"slow": Behaviour(hangs=True)}, Behaviour(duration_s=5)))
    live(world, begin(world, "first"), begin(world, "slow", timeout_s=2.5), begin(world, "next", timeout_s=6))
    assert world.ends["slow"] == (7.5, AttemptResult(error=TaskError(code="timeout", message="it took longer than its timeout of 2.5 s")))
    assert world.ended("next") == (12.5, "completed")
    assert [entry.status for entry in world.performance_log.performances] == ["done", "killed", "done"]


def test_a_deadline_while_it_waits_ends_it_there_and_it_never_starts() -> None:
    world = World(by_skill({}, Behaviour(duration_s=10)))
    live(world, begin(world, "first"), begin(world, "late", deadline=EPOCH + 4), begin(world, "next"))
    error = TaskError(code="deadline", message="its deadline passed while it waited for device 'laptop'")
    assert world.ends["late"] == (4.0, AttemptResult(error=error))
    assert world.started() == [(0, "first"), (10, "next")]


def test_a_deadline_while_it_is_performed_kills() -> None:
    world = World(by_skill({}, Behaviour(duration_s=10)))
    live(world, begin(world, "a", deadline=EPOCH + 4, timeout_s=5))
    assert world.ended("a") == (4, "deadline")


def test_a_deadline_that_has_passed_is_reported_at_once() -> None:
    world = World()
    live(world, begin(world, "a", deadline=EPOCH))
    assert world.ended("a") == (0, "deadline")
    assert world.started() == []


def test_the_first_reason_to_stop_is_the_one_that_is_reported() -> None:
    world = World(by_skill({"a": Behaviour(hangs=True, ignores_cancel_s=5)}))
    live(world, begin(world, "a", timeout_s=1, deadline=EPOCH + 2))
    assert world.ends["a"] == (6.0, AttemptResult(error=TaskError(code="timeout", message="it took longer than its timeout of 1 s")))


def test_limits_that_are_not_reached_have_no_effect() -> None:
    world = World()
    live(world, begin(world, "a", deadline=EPOCH + 4, timeout_s=5), at(20, lambda: None))
    assert world.ended("a") == (1, "completed")


# -- cancels -----------------------------------------------------------------------------------------


def test_a_cancel_while_it_waits_leaves_the_queue_clean() -> None:
    world = World()
    live(world, begin(world, "a"), begin(world, "b"), begin(world, "c"), at(0.5, lambda: cancel("b")))
    assert world.started() == [(0, "a"), (1, "c")]
    assert "b" not in world.ends


def test_a_cancel_while_it_is_performed_kills_and_then_frees_the_slot() -> None:
    world = World(by_skill({"a": Behaviour(hangs=True, ignores_cancel_s=3)}))
    live(world, begin(world, "a"), begin(world, "b"), at(2, lambda: cancel("a")))
    assert world.started() == [(0, "a"), (5, "b")]
    assert world.performance_log.performances[0].status == "killed"
    assert "a" not in world.ends


def test_a_cancellation_passes_on_only_when_the_device_has_ended() -> None:
    world = World(by_skill({"a": Behaviour(hangs=True, ignores_cancel_s=3)}))
    came_through: list[float] = []

    async def caller() -> None:
        try:
            await world.perform("a")
        finally:
            came_through.append(now())

    async def main() -> None:
        async with world.dispatcher, asyncio.TaskGroup() as group:
            task = group.create_task(caller())
            await asyncio.sleep(1)
            task.cancel()

    run(main())
    assert came_through == [4]


@pytest.mark.parametrize("seed", range(30))
def test_a_cancel_in_the_moment_of_the_end_never_hangs(seed: int) -> None:
    world = World()

    async def main() -> None:
        async with world.dispatcher, asyncio.TaskGroup() as group:
            tasks = [group.create_task(world.perform("a")), group.create_task(world.perform("b"))]
            await asyncio.sleep(1)
            for _ in range(seed % 5):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()

    run(main(), seed)
    assert world.performance_log.running_keys == []


def test_a_cancel_before_the_device_made_its_first_step_never_touches_it() -> None:
    touched = []
    for seed in range(30):
        world = World()
        live(world, begin(world, "a"), lambda _: cancel("a"), seed=seed)
        touched.append(len(world.performance_log.performances))
    assert set(touched) == {0, 1}


# -- devices that misbehave --------------------------------------------------------------------------


def test_a_stuck_device_occupies_its_slot_but_the_caller_gets_the_result() -> None:
    world = World(by_skill({"a": Behaviour(hangs=True, ignores_cancel_s=60)}), grace_s=10)
    live(world, begin(world, "a", timeout_s=5), begin(world, "b"))
    at_s, end = world.ends["a"]
    assert at_s == 15
    assert end.error == TaskError(
        code="timeout",
        message="it took longer than its timeout of 5 s; device 'laptop' was stopped, has not ended after 10 s, and may still be running",
    )
    assert world.started() == [(0, "a"), (65, "b")]


def test_a_device_that_raises_is_a_crash_with_its_words() -> None:
    world = World(by_skill({"a": Behaviour(breaks="the cable is out")}))
    live(world, begin(world, "a"), begin(world, "b"))
    error = TaskError(code="crashed", message="device 'laptop' failed: RuntimeError: the cable is out")
    assert world.ends["a"] == (1.0, AttemptResult(error=error))
    assert world.ended("b") == (2, "completed")


class Clumsy(Device):
    """A device that raises, cancels itself, or returns a result although it was stopped."""

    def __init__(self) -> None:
        super().__init__(AgentProfile(device_id="laptop"))

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        if attempt.skill == "cancels itself":
            raise asyncio.CancelledError
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            signs.progress(message="stopping")
            if attempt.skill == "breaks in its kill":
                raise OSError("no such process") from None
        return AttemptResult(result="too late")


def test_a_clumsy_device_gets_no_say_once_it_was_stopped() -> None:
    async def main() -> list[tuple[str, str]]:
        ends: list[tuple[str, str]] = []
        async with Dispatcher({"laptop": Clumsy()}, clock) as dispatcher:
            for skill in ("cancels itself", "breaks in its kill", "returns"):
                attempt = Attempt(key="k", run_id="r", task_id="t", device_id="laptop", skill=skill, timeout_s=1)
                end = await dispatcher.perform(attempt, Heard())
                assert end.error
                ends.append((end.error.code, end.error.message))
        return ends

    assert run(main()) == [
        ("crashed", "the device cancelled its own task"),
        ("timeout", "it took longer than its timeout of 1 s; then device 'laptop' failed: OSError: no such process"),
        ("timeout", "it took longer than its timeout of 1 s"),
    ]


def test_a_lost_device_ends_what_it_performs_and_what_waits_for_it() -> None:
    world = World(by_skill({}, Behaviour(duration_s=10)))
    dispatcher = world.dispatcher
    live(
        world,
        begin(world, "a"),
        begin(world, "b"),
        at(3, lambda: dispatcher.lose("laptop", "no heartbeat for 30 s")),
        begin(world, "c"),
        at(5, lambda: dispatcher.find("laptop")),
        begin(world, "d"),
    )
    assert [world.ended(key) for key in "abcd"] == [(3, "device_lost"), (3, "device_lost"), (3, "device_lost"), (15, "completed")]
    error = world.ends["a"][1].error
    assert error is not None
    assert error.message == "device 'laptop' is lost: no heartbeat for 30 s"
    assert world.started() == [(0, "a"), (5, "d")]
    assert world.notices == [
        (3, DeviceLost(device="laptop", reason="device 'laptop' is lost: no heartbeat for 30 s"), "device:laptop"),
        (5, DeviceFound(device="laptop"), "device:laptop"),
    ]


def test_losing_and_finding_twice_is_reported_once() -> None:
    world = World()
    dispatcher = world.dispatcher
    acts = (dispatcher.lose, dispatcher.lose, dispatcher.find, dispatcher.find)
    live(world, *(at(1, lambda act=act: act("laptop")) for act in acts))  # type: ignore[misc]
    assert [type(event) for _, event, _ in world.notices] == [DeviceLost, DeviceFound]
    assert dispatcher.initial_events() == []


def test_an_unsubscribed_listener_is_not_notified() -> None:
    dispatcher = Dispatcher({"laptop": Clumsy()}, clock)
    told: list[Event] = []
    dispatcher.subscribe(lambda event, _: told.append(event))()
    dispatcher.lose("laptop")
    assert told == []
    reason = "device 'laptop' is lost: it does not answer"
    assert dispatcher.initial_events() == [(DeviceLost(device="laptop", reason=reason), "device:laptop")]


@pytest.mark.parametrize(
    ("guard", "fields"),
    [
        (SkillGuard(approval=True), {}),
        (SkillGuard(no_options=("*",)), {"arguments": {"path": "-rf"}}),
        (SkillGuard(), {"env": {"APP": "1"}, "is_foreign": True}),
    ],
)
def test_an_attempt_that_the_present_fleet_file_guards_does_not_begin(guard: SkillGuard, fields: dict[str, Any]) -> None:
    """A3: the journal had the attempt before the fleet file became stricter."""
    world = World()
    device = FakeDevice(AgentProfile(device_id="laptop", guards=DeviceGuards(every=guard)), world.performance_log)
    world.dispatcher = Dispatcher({"laptop": device}, clock)
    live(world, begin(world, "a", **fields))
    assert world.ended("a") == (0.0, "guarded")
    assert world.started() == []


@pytest.mark.parametrize(("results", "code"), [({}, "completed"), ({"before": "other"}, "guarded")])
def test_an_attempt_begins_where_a_person_has_approved_exactly_its_request(results: dict[str, Any], code: str) -> None:
    world = World()
    guards = DeviceGuards(every=SkillGuard(approval=True))
    world.dispatcher = Dispatcher({"laptop": FakeDevice(AgentProfile(device_id="laptop", guards=guards), world.performance_log)}, clock)
    shown = request_shown(Attempt(key="a", run_id="r", task_id="a", device_id="laptop", skill="a"))
    live(world, begin(world, "a", results=results, approval=digest_of(shown)))
    assert world.ended("a")[1] == code
    assert len(world.started()) == (code == "completed")


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(("path", "code"), [("out/secret", "guarded"), ("in", "completed"), ("in/new", "completed")])
def test_a_link_leads_no_path_of_a_local_device_out_of_its_folder(tmp_path: Path, path: str, code: str, *, named: bool) -> None:
    """A6, A1: "links are followed before an attempt begins", also of a path that is the name of a value."""
    (folder := tmp_path / "data").mkdir()
    (folder / "in").mkdir()
    (folder / "out").symlink_to(tmp_path)
    (linked := tmp_path / "linked").symlink_to(folder)
    guards = DeviceGuards(every=SkillGuard(within={"path": (str(linked),)}))
    world = World()
    world.dispatcher = Dispatcher({"laptop": FakeDevice(AgentProfile(device_id="laptop", guards=guards), world.performance_log)}, clock)
    there = f"{linked}/{path}"
    live(world, begin(world, "a", arguments={"path": {there: str(linked)} if named else there}))
    assert world.ended("a")[1] == code


def test_a_link_is_followed_when_the_turn_of_an_attempt_comes_and_not_when_it_arrives(tmp_path: Path) -> None:
    """A6."""
    (folder := tmp_path / "data").mkdir()
    path = folder / "x"
    guards = DeviceGuards(every=SkillGuard(within={"path": (str(folder),)}))
    world = World()
    device = FakeDevice(AgentProfile(device_id="laptop", concurrency=1, guards=guards), world.performance_log)
    world.dispatcher = Dispatcher({"laptop": device}, clock)
    later = begin(world, "b", arguments={"path": str(path)})
    live(world, begin(world, "a", arguments={"path": str(folder)}), later, at(0.5, lambda: path.symlink_to(tmp_path)))
    assert (world.ended("a")[1], world.ended("b")) == ("completed", (1.0, "guarded"))


def test_a_run_gets_the_guards_of_the_present_fleet_first() -> None:
    """A3."""
    profile = AgentProfile(device_id="laptop", guards=DeviceGuards(every=SkillGuard(approval=True)), skills=(Skill(name="wipe"),))
    world = World()
    dispatcher = Dispatcher({"laptop": FakeDevice(profile, world.performance_log)}, clock)
    guarded = FleetGuarded(guards={"laptop": profile.guards}, skills={"laptop": ("wipe",)})
    assert dispatcher.first_events() == [(guarded, "fleet")]


def test_an_unknown_device_is_named_with_those_there_are() -> None:
    world = World()
    live(world, begin(world, "a", device_id="lapdog"))
    error = TaskError(code="no_device", message="there is no device 'lapdog'; the fleet has 'laptop'")
    assert world.ends["a"] == (0.0, AttemptResult(error=error))
    for ask in (world.dispatcher.lose, world.dispatcher.find, world.dispatcher.queue_depth, world.dispatcher.running):
        with pytest.raises(InvalidInput, match="no device 'lapdog'"):
            ask("lapdog")


def test_a_full_queue_is_reported() -> None:
    world = World(queue_limit=2)
    live(world, *(begin(world, key) for key in "abcd"))
    assert world.ended("d") == (0, "no_device")
    error = world.ends["d"][1].error
    assert error is not None
    assert error.message == "device 'laptop' is overloaded: its queue is full with 2 attempts"
    assert [world.ended(key)[1] for key in "abc"] == ["completed"] * 3


def test_a_device_without_a_slot_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="concurrency is 0"):
        World(concurrency=0)


def test_depth_and_running_say_what_is_there() -> None:
    world = World(concurrency=2)
    seen: list[tuple[int, int]] = []
    ask = world.dispatcher
    live(world, *(begin(world, key) for key in "abcde"), at(0.5, lambda: seen.append((ask.running("laptop"), ask.queue_depth("laptop")))))
    assert seen == [(2, 3)]


def test_closing_stops_everything_and_waits_until_the_devices_have_ended() -> None:
    world = World(by_skill({}, Behaviour(hangs=True, ignores_cancel_s=4)))

    async def main() -> float:
        async with asyncio.TaskGroup() as group:
            async with world.dispatcher:
                group.create_task(world.perform("a"))
                group.create_task(world.perform("b"))
                await asyncio.sleep(1)
            closed_at = now()
        assert (await world.perform("c")).error == TaskError(code="cancelled", message="the dispatcher is not open")
        return closed_at

    assert run(main()) == 5
    assert {world.ended("a"), world.ended("b")} == {(5, "cancelled"), (1, "cancelled")}
    assert world.performance_log.running_keys == []


# -- places ------------------------------------------------------------------------------------------


def test_attempts_wait_for_the_places_that_other_processes_have(tmp_path: Path) -> None:
    world = World(concurrency=2, places={"laptop": Places(tmp_path, "laptop", 2)})
    elsewhere = Places(tmp_path, "laptop", 2)
    held = elsewhere.take()
    assert held
    live(world, *(begin(world, key) for key in "abc"), at(1.75, held.release))
    assert world.started() == [(0, "a"), (1, "b"), (2, "c")]
    both = [elsewhere.take(), elsewhere.take()]
    assert None not in both


def test_a_process_with_a_long_queue_leaves_a_place_to_another_that_waits(tmp_path: Path) -> None:
    here, there = ({"laptop": Places(tmp_path, "laptop", 1)} for _ in range(2))
    busy, late = World(places=here), World(places=there)

    async def main() -> None:
        async with busy.dispatcher, late.dispatcher, asyncio.TaskGroup() as group:
            for number in range(12):
                group.create_task(busy.perform(f"busy{number:02}", issued=(number, 0)))
            await asyncio.sleep(2.3)
            for number in range(2):
                group.create_task(late.perform(f"late{number}", issued=(number, 0)))

    run(main())
    assert [at for at, _ in busy.started()] == pytest.approx([0, 1, 2, 3, 4, *(8 + number for number in range(7))], abs=0.75)
    assert [at for at, _ in late.started()] == pytest.approx([5, 6], abs=0.5)


def test_an_attempt_waits_while_its_places_cannot_be_locked_and_says_once_where_and_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    world = World(places={"laptop": Places(tmp_path / "file" / "places", "laptop", 1)})
    signs = Heard()
    live(world, begin(world, "a", signs=signs), begin(world, "b"), at(1.75, (tmp_path / "file").unlink))
    assert world.started() == [(2, "a"), (3, "b")]
    said = f"the places of device 'laptop' in {tmp_path / 'file' / 'places'} cannot be locked: File exists"
    assert signs.signs == [f"queued: {said}; name a database in a folder where files can be made", "queued", "begun"]


# -- progress ----------------------------------------------------------------------------------------


def reports(behaviour: Behaviour, **fields: Any) -> list[tuple[float, float | None, str]]:
    seen: list[tuple[float, float | None, str]] = []
    world = World(by_skill({}, behaviour))
    live(world, begin(world, "a", signs=Heard(listener=lambda *report: seen.append((now(), *report))), **fields))
    return seen


def test_the_first_report_passes_at_once_and_later_ones_are_merged_four_times_a_second() -> None:
    marks = ((0.0, 0.0, "begin"), (0.1, 0.1, "one"), (0.125, 0.2, ""), (0.2, None, "two"), (0.5, 0.5, "three"))
    assert reports(Behaviour(duration_s=2, marks=marks)) == [(0, 0.0, "begin"), (0.25, 0.2, "one\ntwo"), (0.5, 0.5, "three")]


def test_an_empty_line_is_no_report() -> None:
    marks = ((0.0, None, "one"), (0.5, None, ""), (1.0, None, " \n"), (1.5, 0.5, "  "), (2.0, None, "two"))
    assert reports(Behaviour(duration_s=3, marks=marks)) == [(0, None, "one"), (1.5, 0.5, ""), (2, None, "two")]


def test_the_last_report_is_never_dropped_and_comes_before_the_end() -> None:
    assert reports(Behaviour(duration_s=0.125, marks=((0, 0.1, ""), (0.125, 1.0, "done")))) == [(0, 0.1, ""), (0.125, 1.0, "done")]
    assert reports(Behaviour(hangs=True, marks=((0, 0.1, ""), (0.125, 0.9, "nearly"))), timeout_s=0.2) == [
        (0, 0.1, ""),
        (0.2, 0.9, "nearly"),
    ]


def test_a_flood_is_bounded_in_number_and_in_size() -> None:
    marks = tuple((n / 100, None, f"line {n}") for n in range(20_000))
    seen = reports(Behaviour(duration_s=200, marks=marks))
    assert len(seen) == 500
    first, *lines = seen[-1][2].splitlines()
    assert first.endswith("earlier messages left out)")
    assert lines == [f"line {n}" for n in range(19_980, 20_000)]
    assert max(len(message.splitlines()) for _, _, message in seen[:-1]) == 21


def test_a_long_message_is_cut() -> None:
    ((_, _, message),) = reports(Behaviour(marks=((0, None, "x" * 10_000),)))
    assert message == "x" * 499 + "…"


def test_what_is_reported_after_the_end_is_dropped() -> None:
    kept: list[Signs] = []
    heard = Heard()

    class Chatterbox(Device):
        def __init__(self) -> None:
            super().__init__(AgentProfile(device_id="laptop"))

        async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
            kept.append(signs)
            return AttemptResult(result=attempt.number)

    async def main() -> None:
        async with Dispatcher({"laptop": Chatterbox()}, clock) as dispatcher:
            await dispatcher.perform(Attempt(key="k", run_id="r", task_id="t", device_id="laptop", skill="s"), heard)
            kept[0].progress(message="one more thing")
            await asyncio.sleep(1)

    run(main())
    assert heard.reports == []


def test_a_listener_hears_at_once_of_a_device_that_is_lost_already() -> None:
    dispatcher, events = Dispatcher({"laptop": Clumsy()}, clock), list[Event]()
    dispatcher.lose("laptop", "no answer")
    dispatcher.subscribe(lambda event, _: events.append(event))
    assert events == [DeviceLost(device="laptop", reason="device 'laptop' is lost: no answer")]
