"""Devices that cannot be used: named before a run starts that uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.python.plans import devices_of
from asterism.devices.fleet.fleet_file import UnopenedDevice
from asterism.devices.port import Device
from asterism.engine.kernel.profile import HERE
from asterism.errors import InvalidInput

REACH_S = 20.0
"""Seconds that a device may take to answer before a run that uses it starts."""


async def check_usable(plan: PlanDocument, devices: Mapping[str, Device]) -> None:
    """Check that each device of a plan could be opened and can be reached; others are not asked.

    Raises:
        InvalidInput: it cannot; the text names the first such device of the plan, and the cause.
    """
    async with asyncio.TaskGroup() as group:
        used = {name: group.create_task(cause_of(devices[name])) for name in dict.fromkeys(devices_of(plan)) if name in devices}
    for name, asked in used.items():
        if why := asked.result():
            raise _unusable(name, why)


def check_opened(plan: PlanDocument, devices: Mapping[str, Device]) -> None:
    """Check that each device of a plan could be opened. Raises InvalidInput as ``check_usable``."""
    for name in devices_of(plan):
        if isinstance(device := devices.get(name), UnopenedDevice):
            raise _unusable(name, device.unreachable)


def with_causes(error: InvalidInput, devices: Mapping[str, Device]) -> InvalidInput:
    """Return the error of a request that cannot be planned, with a line for each device whose skills are unknown.

    If they all are, the reason of the first one is the error.
    """
    causes = {name: why for name, device in devices.items() if (why := device.unreachable)}
    if causes and not devices.keys() - causes.keys() - {HERE}:
        return InvalidInput(next(iter(causes.values())))
    return InvalidInput("\n".join([str(error), *(f"  device {name!r} cannot be used: {why}" for name, why in causes.items())]))


def _unusable(name: str, why: str) -> InvalidInput:
    return InvalidInput(f"device {name!r} of the plan cannot be used: {why}")


async def cause_of(device: Device, within_s: float = REACH_S) -> str:
    """Return why a device cannot be used; empty if it can."""
    if device.unreachable:
        return device.unreachable
    try:
        async with asyncio.timeout(within_s):
            return await device.reach()
    except TimeoutError:
        return f"it has not answered within {within_s:g} s"
