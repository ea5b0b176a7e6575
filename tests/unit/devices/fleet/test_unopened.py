"""Devices that cannot be opened: lost, without an effect on the other devices of their fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from asterism.app.bootstrap import open_devices
from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.model.task import TaskSpec
from asterism.constellation.requirements import check_opened, check_usable, with_causes
from asterism.devices.dispatch.dispatcher import Dispatcher
from asterism.devices.fleet.fleet_file import UNNEEDED_S, DeviceEntry, UnopenedDevice, described
from asterism.devices.model.attempt import DeviceFound, DeviceLost
from asterism.devices.port import Attempt, Device
from asterism.engine.kernel.machine import Event
from asterism.engine.kernel.profile import HERE, AgentProfile
from asterism.errors import InvalidInput, MissingExtra
from asterism.testing.device import FakeDevice, PerformanceLog
from asterism.testing.loop import run
from tests.support.device_signs import Heard
from tests.support.fleets import kind_of, open_fleet

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
    async def needs_an_extra(entry: DeviceEntry) -> Device:
        if entry.id == "a":
            raise MissingExtra("ssh", "device a, of kind ssh,")
        return fake(entry.id)

    (tmp_path / "fleet.toml").write_text('[[devices]]\nid = "a"\nkind = "k"\n[[devices]]\nid = "b"\nkind = "k"\n', encoding="utf-8")

    async def opened() -> dict[str, Device]:
        async with open_fleet(tmp_path / "fleet.toml", {"k": kind_of(needs_an_extra)}, every=False) as devices:
            return devices

    devices = asyncio.run(opened())
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


def opened_without(
    tmp_path: Path, far: Callable[[], Awaitable[Device]], needed: Collection[str] | None
) -> AbstractAsyncContextManager[dict[str, Device]]:
    """Open the device ``here``, and the remote device ``far``, which no task or each one may need."""

    async def opened(entry: DeviceEntry) -> Device:
        return await far() if entry.id == "far" else fake(entry.id)

    (tmp_path / "fleet.toml").write_text('[[devices]]\nid = "far"\nkind = "k"\n[[devices]]\nid = "near"\nkind = "k"\n', encoding="utf-8")
    return open_fleet(tmp_path / "fleet.toml", {"k": kind_of(opened, is_remote=True)}, every=False, needed=needed)


async def never() -> Device:
    await asyncio.Event().wait()
    raise AssertionError


def test_a_device_that_does_not_answer_delays_no_run_that_does_not_use_it(tmp_path: Path) -> None:
    """G5: it was waited for until its own limit, a minute for an A2A agent."""

    async def whole() -> None:
        now = asyncio.get_running_loop().time
        async with opened_without(tmp_path, never, ["near"]) as devices:
            assert now() <= UNNEEDED_S
            assert isinstance(devices["near"], FakeDevice)
            assert isinstance(devices["far"], UnopenedDevice)
            assert not devices["far"].unreachable
            async with Dispatcher(devices, now) as dispatcher:
                given = Attempt(key="r:1.0", run_id="r", task_id="t", device_id="near", skill="do")
                assert (await dispatcher.perform(given, Heard())).error is None
                assert dispatcher.initial_events() == []
                await asyncio.sleep(60)
            assert now() < 64

    run(whole())


def test_a_device_that_any_task_may_need_has_a_while_to_answer(tmp_path: Path) -> None:
    async def whole() -> None:
        async with opened_without(tmp_path, never, None) as devices:
            assert devices["far"].unreachable == "it has not answered within 20 s"

    run(whole())


@pytest.mark.parametrize("opens_at", [1, 3])
def test_a_device_that_was_not_waited_for_is_opened_when_an_attempt_needs_it(tmp_path: Path, opens_at: int) -> None:
    """It is lost only once it could not be opened, and its runs learn its profile."""
    tries, events = 0, list[Event]()
    profile = AgentProfile(device_id="far", description="It was asleep.")

    async def far() -> Device:
        nonlocal tries
        tries += 1
        if tries == 1:
            await never()
        if tries <= opens_at:
            raise InvalidInput("no route to host")
        return FakeDevice(profile, PerformanceLog(lambda: 0.0))

    async def whole() -> None:
        now = asyncio.get_running_loop().time
        async with opened_without(tmp_path, far, []) as devices:
            dispatcher = Dispatcher(devices, now)
            dispatcher.subscribe(lambda event, _: events.append(event))
            async with dispatcher:
                error = (
                    await dispatcher.perform(Attempt(key="r:1.0", run_id="r", task_id="t", device_id="far", skill="do"), Heard())
                ).error
                assert (error and error.code) == ("device_lost" if opens_at > 1 else None)
                await asyncio.sleep(10)
                assert dispatcher.initial_events() == [(DeviceFound(device="far", profile=profile), "device:far")]

    run(whole())
    lost = [DeviceLost(device="far", reason="device 'far' is lost: no route to host")] if opens_at > 1 else []
    assert events == [*lost, DeviceFound(device="far", profile=profile)]


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
