"""Kind ``agent`` of a fleet file: a loop as a device, which carries out tasks in natural language, each as a child run."""

from __future__ import annotations

from pathlib import Path

from asterism.devices.child import ChildDevice
from asterism.devices.fleet import DeviceEntry, DeviceKind
from asterism.loops.definition import find_loop


class AgentEntry(DeviceEntry, frozen=True, kw_only=True):
    """Its table.

    Attributes:
        loop: ``file.py:name``, ``module:name`` or ``file.toml``, relative to the folder of the fleet file.
    """

    loop: str


async def _open(entry: AgentEntry, folder: Path) -> ChildDevice:
    loop = find_loop(entry.loop, folder)
    described = "; ".join(it.description for it in loop.workers.values() if it.description)
    return ChildDevice(entry, loop.child(folder, entry.loop), described)


AGENT_KIND = DeviceKind(AgentEntry, _open)
"""For the registry of kinds."""
