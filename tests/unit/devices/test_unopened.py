"""Devices that cannot be opened: lost, without an effect on the other devices of their fleet."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from asterism.bootstrap import open_devices
from asterism.constellation.documents import PlanDocument, TaskSpec
from asterism.constellation.profile import HERE, AgentProfile
from asterism.constellations.availability import check_opened, check_usable, with_causes
from asterism.devices.dispatcher import Dispatcher
from asterism.devices.fleet import DeviceEntry, DeviceKind, open_fleet
from asterism.devices.unopened import UnopenedDevice, described
from asterism.errors import InvalidInput, MissingExtra
from asterism.machines.constellation_agent.events import DeviceLost
from asterism.runtime.ports.device import Attempt, Device
from asterism.simulation.device import FakeDevice, PerformanceLog
from asterism.simulation.loop import run
from tests.device_signs import Heard

FLEET = """
[[devices]]
id = "laptop"
[[devices.commands]]
name = "list"
argv = ["ls", "{path}"]

[[devices]]
id = "odd"
description = "A camera."
[[devices.commands]]
name = "shoot"
argv = ["no-such-camera"]

[[devices]]
id = "agent"
kind = "a2a"
url = "http://127.0.0.1:9"
"""
WHY = "devices[1] (odd).commands[0].argv[0]: there is no program 'no-such-camera'"


def fake(device_id: str) -> FakeDevice:
    return FakeDevice(AgentProfile(device_id=device_id), PerformanceLog(lambda: 0.0))


def plan(device: str, skill: str) -> PlanDocument:
    return PlanDocument(tasks=(TaskSpec(task_id="t", name="t", device=device, skill=skill),))


def test_a_missing_program_leaves_its_device_lost_and_the_others_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")

    async def scenario() -> None:
        async with open_devices(tmp_path / "fleet.toml") as (profiles, devices):
            assert [skill.name for skill in profiles["laptop"].skills] == ["list"]
            assert not profiles["odd"].skills
            assert profiles["odd"].description.startswith(f"A camera. (cannot be used: {tmp_path}/fleet.toml: {WHY}")
            assert profiles["odd"].file_bytes is None
            assert profiles["agent"].natural_language
            await check_usable(plan("laptop", "list"), devices)
            with pytest.raises(InvalidInput, match=r"device 'odd' of the plan cannot be used: .*no program 'no-such-camera'"):
                await check_usable(plan("odd", "shoot"), devices)
            with pytest.raises(InvalidInput, match=r"device 'agent' of the plan cannot be used: http://127\.0\.0\.1:9: "):
                await check_usable(plan("agent", ""), devices)
            check_opened(plan("agent", ""), devices)  # it could be opened, and a run may wait for it
            with pytest.raises(InvalidInput, match="device 'odd' of the plan cannot be used"):
                check_opened(plan("odd", "shoot"), devices)

    asyncio.run(scenario())


def test_a_check_of_the_fleet_is_about_every_device(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")

    async def scenario() -> None:
        async with open_devices(tmp_path / "fleet.toml", every=True):
            raise AssertionError

    with pytest.raises(InvalidInput, match="no program 'no-such-camera'"):
        asyncio.run(scenario())


def test_a_missing_extra_is_no_error_of_the_other_devices(tmp_path: Path) -> None:
    async def needs_an_extra(entry: DeviceEntry, _: Path) -> Device:
        if entry.id == "a":
            raise MissingExtra("ssh", "device a, of kind ssh,")
        return fake(entry.id)

    (tmp_path / "fleet.toml").write_text('[[devices]]\nid = "a"\nkind = "k"\n[[devices]]\nid = "b"\nkind = "k"\n', encoding="utf-8")
    kinds = {"k": DeviceKind(DeviceEntry, needs_an_extra)}
    devices = asyncio.run(open_fleet(tmp_path / "fleet.toml", kinds, every=False))
    assert isinstance(devices["a"], UnopenedDevice)
    assert devices["a"].unreachable == "device a, of kind ssh, needs an extra: pip install 'asterism-engine[ssh]'"
    assert devices["a"].profile.file_bytes == 0
    assert isinstance(devices["b"], FakeDevice)


def test_a_device_is_lost_until_it_can_be_opened() -> None:
    async def whole() -> None:
        tries = 0
        device = fake("far")

        async def opened() -> Device:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise InvalidInput("there is no program")
            return device

        unopened = UnopenedDevice(device.profile, "there is no program", opened)
        dispatcher = Dispatcher({"far": unopened}, asyncio.get_running_loop().time)
        given = Attempt(key="r:1.0", run_id="r", task_id="t", device_id="far", skill="do")
        lost = "device 'far' is lost: there is no program"
        assert dispatcher.initial_events() == [(DeviceLost(device="far", reason=lost), "device:far")]
        async with dispatcher:
            refused = await dispatcher.perform(given, Heard())
            assert refused.error is not None
            assert (refused.error.code, refused.error.message) == ("device_lost", lost)
            await asyncio.sleep(8)  # 1 + 2 + 4 s
            assert tries == 3
            assert dispatcher.initial_events() == []
            assert (await dispatcher.perform(given, Heard())).error is None

    run(whole())


def test_a_device_that_fails_in_a_group_of_tasks_is_opened_again() -> None:
    tries = 0

    async def refused() -> None:
        raise OSError("refused")

    async def opened() -> Device:
        nonlocal tries
        tries += 1
        if tries < 3:
            async with asyncio.TaskGroup() as group:
                group.create_task(refused())
        return fake("far")

    async def whole() -> None:
        dispatcher = Dispatcher({"far": UnopenedDevice(fake("far").profile, "no camera", opened)}, asyncio.get_running_loop().time)
        async with dispatcher:
            await asyncio.sleep(8)
            assert dispatcher.initial_events() == []

    run(whole())
    assert tries == 3


def test_a_device_that_makes_an_error_of_a_cancel_is_not_opened_again() -> None:
    tries = 0

    async def opened() -> Device:
        nonlocal tries
        tries += 1
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            if tries == 1:
                raise OSError("the connection was closed") from None
            raise
        return fake("far")

    async def whole() -> None:
        time = asyncio.get_running_loop().time
        async with asyncio.timeout(100):
            async with Dispatcher({"far": UnopenedDevice(fake("far").profile, "no camera", opened)}, time):
                await asyncio.sleep(2)
            assert time() == 2

    run(whole())
    assert tries == 1


def test_a_request_that_cannot_be_planned_names_the_devices_whose_skills_are_unknown() -> None:
    async def never() -> Device:
        raise AssertionError

    def device(why: str) -> Device:
        found = fake("d")
        return UnopenedDevice(found.profile, why, never) if why else found

    refused = InvalidInput("nothing can shoot")
    assert str(with_causes(refused, {"a": device(""), HERE: device("")})) == "nothing can shoot"
    some = with_causes(refused, {"a": device(""), "b": device("no camera"), HERE: device("")})
    assert str(some) == "nothing can shoot\n  device 'b' cannot be used: no camera"
    assert str(with_causes(refused, {"a": device("no tripod"), "b": device("no camera"), HERE: device("")})) == "no tripod"


def test_a_long_reason_is_cut_in_the_description() -> None:
    assert described("", "a\nb") == "(cannot be used: a b)"
    assert len(described("A camera.", "x" * 1000)) < 350
