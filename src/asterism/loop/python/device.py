"""Fleet kind ``agent``: a loop as a device that runs natural-language tasks as child runs."""

from __future__ import annotations

from pathlib import Path

from asterism.devices.fleet.fleet_file import DeviceEntry, DeviceKind
from asterism.devices.kinds.child import ChildDevice
from asterism.loop.python.definition import find_loop


class AgentEntry(DeviceEntry, frozen=True, kw_only=True):
    """Table of a device of kind ``agent`` (a loop) in a fleet file.

    Attributes:
        loop: ``file.py:name``, ``module:name`` or ``file.toml``, relative to the folder of the
            fleet file.
    """

    loop: str


async def _open(entry: AgentEntry, folder: Path) -> ChildDevice:
    loop = find_loop(entry.loop, folder)
    described = "; ".join(it.description for it in loop.workers.values() if it.description)
    return ChildDevice(entry, loop.child(folder, entry.loop), described)


AGENT_KIND = DeviceKind(AgentEntry, _open)
"""The device kind ``agent``; ``app.bootstrap.open_devices`` lists it."""
