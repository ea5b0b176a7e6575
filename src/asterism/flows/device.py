"""Device kind ``flow`` of a fleet file: a flow agent as a device; each task is a child conversation of the constellation."""

from __future__ import annotations

from pathlib import Path

from asterism.devices.child import ChildDevice
from asterism.devices.fleet import DeviceEntry, DeviceKind
from asterism.flows.children import as_child
from asterism.flows.source import agent_of


class FlowEntry(DeviceEntry, frozen=True, kw_only=True):
    """The table of a flow device.

    Attributes:
        flow: ``file.py:Name`` or ``module:Name``, relative to the folder of the fleet file.
    """

    flow: str


async def _open(entry: FlowEntry, folder: Path) -> ChildDevice:
    agent = agent_of(entry.flow, folder)
    return ChildDevice(entry, as_child(agent), agent.description or agent.__name__)


FLOW_KIND = DeviceKind(FlowEntry, _open)
"""The device kind ``flow``; ``bootstrap.open_devices`` lists it."""
