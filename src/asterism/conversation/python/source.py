"""Find flow agents in a module, a file, or an entry point of an installed package; and as devices of a fleet file."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from asterism.conversation.python.agent import StandardAgent
from asterism.conversation.python.children import as_child
from asterism.devices.fleet.fleet_file import DeviceEntry, DeviceKind, FleetContext
from asterism.devices.kinds.here import ChildDevice
from asterism.devices.skills.source import imported
from asterism.errors import InvalidInput, did_you_mean

ENTRY_POINTS = "asterism.conversation"
"""Entry point group of agents in installed packages: ``booking = "acme.booking"``, or ``"acme.booking:Booking"``."""
_ADVICE = "; an agent is a subclass of StandardAgent, of asterism.conversation.python"


def agents_of(source: str, folder: Path) -> list[type[StandardAgent]]:
    """Return the agents of a source.

    Args:
        source: a module, a file (``file.py``) or an entry point; ``file.py:Name`` for one agent.
        folder: folder that relative paths start from.

    Raises:
        InvalidInput: the source has no such agent.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - delays the start of every command by 10 ms

    source = next((point.value for point in entry_points(group=ENTRY_POINTS, name=source)), source)
    place, _, name = source.rpartition(":") if ":" in source else (source, "", "")
    module = imported(place, folder)
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, StandardAgent)
        and value.__module__ == module.__name__
        and name in ("", value.__name__)
    ]
    if not found:
        raise InvalidInput(f"{place} has no flow agent {name}".rstrip() + (did_you_mean(name, vars(module)) or _ADVICE))
    return found


def agent_of(source: str, folder: Path) -> type[StandardAgent]:
    """Return the only agent of a source.

    Raises:
        InvalidInput: the source has no agent, or more than one.
    """
    agents = agents_of(source, folder)
    if len(agents) > 1:
        raise InvalidInput(f"{source} has {len(agents)} agents; name one: {source}:{agents[0].__name__}")
    return agents[0]


class FlowEntry(DeviceEntry, frozen=True, kw_only=True):
    """The table of a flow device in a fleet file; each of its tasks is a child conversation of the constellation.

    Attributes:
        flow: ``file.py:Name`` or ``module:Name``, relative to the folder of the fleet file.
    """

    flow: str


@contextlib.asynccontextmanager
async def _open(entry: FlowEntry, context: FleetContext) -> AsyncIterator[ChildDevice]:
    agent = agent_of(entry.flow, context.folder)
    yield ChildDevice(entry, as_child(agent), agent.description or agent.__name__)


FLOW = DeviceKind(FlowEntry, _open)
"""The device kind ``flow``; ``app.bootstrap.device_kinds`` lists it."""
