"""Contract of devices, tested on each of them. A new device joins by a world in ``WORLDS``.

A world's device has these skills: ``answer`` returns ``{"answer": 42}``; ``raise`` raises; ``crash`` loses its
process; ``talk`` reports a quarter and returns; ``wait`` reports ``waiting`` and never ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asterism.devices.model.attempt import TaskError
from asterism.devices.port import Attempt, AttemptResult, Device
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.testing import loop as simulation
from asterism.testing.device import Behaviour, FakeDevice, PerformanceLog, by_skill
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet
from tests.support.mcp_devices import open_mcp

SKILLS = ("answer", "raise", "crash", "talk", "wait")
LOCAL_SKILLS = ("answer", "complain", "exit_hard", "talk", "wait")

Scenario = Callable[[Device], Awaitable[None]]
Play = Callable[[Scenario], None]


def play_local(tmp_path: Path, scenario: Scenario) -> None:
    source = Path(__file__).parents[1] / "end_to_end" / "local_skills.py"
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(f'[[devices]]\nid = "d"\nskills = {[f"{source}:{name}" for name in LOCAL_SKILLS]}\n')

    async def whole() -> None:
        async with asyncio.timeout(60), open_fleet(fleet) as devices:
            await scenario(devices["d"])

    asyncio.run(whole())


def play_simulated(tmp_path: Path, scenario: Scenario) -> None:
    behaviours = {
        "answer": Behaviour(result={"answer": 42}),
        "raise": Behaviour(error=TaskError(code="raised", message="no such luck")),
        "crash": Behaviour(error=TaskError(code="crashed", message="its process died")),
        "talk": Behaviour(marks=((0.5, 0.25, "a quarter"),)),
        "wait": Behaviour(marks=((0.5, None, "waiting"),), hangs=True),
    }

    async def whole() -> None:
        ledger = PerformanceLog(asyncio.get_running_loop().time)
        profile = AgentProfile(device_id="d", skills=tuple(Skill(name=name) for name in SKILLS))
        await scenario(FakeDevice(profile, ledger, by_skill(behaviours)))
        assert ledger.running_keys == []

    simulation.run(whole())


def play_mcp(tmp_path: Path, scenario: Scenario) -> None:
    async def whole() -> None:
        async with open_mcp(tmp_path, allow=SKILLS) as device:
            await scenario(device)

    asyncio.run(whole())


WORLDS: dict[str, Callable[[Path, Scenario], None]] = {"local": play_local, "mcp": play_mcp, "simulated": play_simulated}


@pytest.fixture(params=sorted(WORLDS))
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    return lambda scenario: WORLDS[request.param](tmp_path, scenario)


def attempt(skill: str, key: str = "r:1.0", **arguments: Any) -> Attempt:
    return Attempt(key=key, run_id="r", task_id="t", device_id="d", skill=skill, arguments=arguments)


def test_its_profile_names_it_and_its_skills(play: Play) -> None:
    async def scenario(device: Device) -> None:
        assert device.profile.device_id == "d"
        assert tuple(skill.name for skill in device.profile.skills) == SKILLS
        assert msgspec.json.decode(msgspec.json.encode(device.profile), type=AgentProfile) == device.profile

    play(scenario)


def test_a_result_is_the_end_of_an_attempt(play: Play) -> None:
    async def scenario(device: Device) -> None:
        assert await device.perform(attempt("answer"), Heard()) == AttemptResult(result={"answer": 42})

    play(scenario)


@pytest.mark.parametrize(("skill", "code"), [("raise", "raised"), ("crash", "crashed")])
def test_an_error_is_a_result_and_not_an_exception_and_the_device_goes_on(play: Play, skill: str, code: str) -> None:
    async def scenario(device: Device) -> None:
        end = await device.perform(attempt(skill), Heard())
        assert end.result is None
        assert end.error is not None
        assert end.error.code == code
        assert end.error.words
        assert await device.perform(attempt("answer"), Heard()) == AttemptResult(result={"answer": 42})

    play(scenario)


def test_progress_comes_after_the_begin_and_before_the_end(play: Play) -> None:
    async def scenario(device: Device) -> None:
        heard = Heard()
        await device.perform(attempt("talk"), heard)
        assert (0.25, "a quarter") in heard.reports
        count = len(heard.reports)
        await device.perform(attempt("answer"), Heard())
        assert len(heard.reports) == count
        assert heard.signs == ["begun", "progress"]

    play(scenario)


def test_a_cancelled_attempt_ends_and_leaves_the_others_alone(play: Play) -> None:
    async def scenario(device: Device) -> None:
        doomed, spared = Heard(), Heard()
        async with asyncio.TaskGroup() as group:
            first = group.create_task(device.perform(attempt("wait", "r:1.0"), doomed))
            second = group.create_task(device.perform(attempt("wait", "r:1.1"), spared))
            await doomed.arrived.wait()
            await spared.arrived.wait()
            first.cancel()
            await asyncio.wait([first])
            assert first.cancelled()
            count = len(doomed.reports)
            assert await device.perform(attempt("answer", "r:2.0"), Heard()) == AttemptResult(result={"answer": 42})
            assert not second.done()
            assert len(doomed.reports) == count
            second.cancel()

    play(scenario)


def test_attempts_are_performed_at_the_same_time(play: Play) -> None:
    async def scenario(device: Device) -> None:
        async with asyncio.TaskGroup() as group:
            heard = [Heard() for _ in range(3)]
            tasks = [group.create_task(device.perform(attempt("wait", f"r:1.{index}"), each)) for index, each in enumerate(heard)]
            for each in heard:
                await each.arrived.wait()
            for task in tasks:
                task.cancel()

    play(scenario)


def test_no_work_starts_before_the_begin_is_confirmed(play: Play) -> None:
    async def scenario(device: Device) -> None:
        class Doubtful(Heard):
            async def begun(self) -> None:
                await super().begun()
                await asyncio.Event().wait()

        heard = Doubtful()
        performing = asyncio.create_task(device.perform(attempt("talk"), heard))
        while not heard.signs:  # noqa: ASYNC110 - a device may have to start a process first
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert heard.signs == ["begun"]
        performing.cancel()
        await asyncio.wait([performing])
        assert performing.cancelled()

    play(scenario)
