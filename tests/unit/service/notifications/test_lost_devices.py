"""Which lost devices are noted."""

from __future__ import annotations

import asyncio
import contextlib

from asterism.constellation.machine.events import DeviceFound, DeviceLost
from asterism.engine.ports.notices import Notice
from asterism.service.notifications.lost_devices import AGAIN_S, LostDevices
from asterism.stores.memory import MemoryStore
from asterism.testing.loop import run
from tests.unit.service.schedules.test_scheduler import Hand


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
