"""Watching remote devices: their notices of a loss, of a return, and of other profiles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from asterism.devices.port import RemoteDevice
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.runtime.task_group import in_own_task

RETRY_S = (1.0, 60.0)
"""First and longest wait before a device is watched again whose ``watch`` has ended."""


class FleetNotices(Protocol):
    """The dispatcher, as the notices of its devices need it."""

    def lose(self, device_id: str, why: str = ...) -> None:
        """Mark a device as lost."""
        ...

    def find(self, device_id: str, profile: AgentProfile | None = None) -> None:
        """Mark a device as available, with its profile if it may have changed."""
        ...


class DeviceNotices:
    """The ``Notices`` of one device.

    Args:
        device_id: id of the device.
        fleet: the dispatcher.
        is_member: returns False once the device has left the fleet; then its notices are ignored.
    """

    def __init__(self, device_id: str, fleet: FleetNotices, is_member: Callable[[], bool]) -> None:
        self._device_id = device_id
        self._fleet = fleet
        self._is_member = is_member

    def lost(self, why: str) -> None:
        """Report that the device cannot be reached."""
        if self._is_member():
            self._fleet.lose(self._device_id, why)

    def found(self, profile: AgentProfile | None = None) -> None:
        """Report that the device can be reached."""
        if self._is_member():
            own = profile and msgspec.structs.replace(profile, device_id=self._device_id)
            self._fleet.find(self._device_id, own)


async def watch(device: RemoteDevice, notices: DeviceNotices) -> None:
    """Watch a device until cancelled; begin again, at growing intervals, if its ``watch`` ends."""
    loop = asyncio.get_running_loop()
    first_s, longest_s = RETRY_S
    wait_s = first_s
    while True:  # bounded: its waits grow, and it ends with the dispatcher
        began_at = loop.time()
        try:
            await in_own_task(device.watch, notices)
        except Exception as error:  # boundary: a device may raise anything; it counts as lost until it reports that it is found
            notices.lost(f"its connection failed: {type(error).__name__}: {error}")
        wait_s = first_s if loop.time() - began_at > longest_s else min(2 * wait_s, longest_s)
        await asyncio.sleep(wait_s)
