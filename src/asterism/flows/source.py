"""Where flow agents are: a module, a file, or an entry point of an installed package; or one of its agents by name."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

from asterism.devices.source import imported
from asterism.errors import InvalidInput
from asterism.flows.agent import StandardAgent

ENTRY_POINTS = "asterism.flows"
"""The group in which an installed package names its agents: ``booking = "acme.booking"``, or ``"acme.booking:Booking"``."""


def agents_of(source: str, folder: Path) -> list[type[StandardAgent]]:
    """The agents of a module or file (``file.py``), or the one that is named (``file.py:Name``); a file is relative to the folder.

    A source that is the name of an entry point stands for what that one names.

    Raises:
        InvalidInput: there is none.
    """
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
        raise InvalidInput(f"{place} has no flow agent {name}".rstrip())
    return found


def agent_of(source: str, folder: Path) -> type[StandardAgent]:
    """The one agent of a source.

    Raises:
        InvalidInput: there is none, or more than one.
    """
    agents = agents_of(source, folder)
    if len(agents) > 1:
        raise InvalidInput(f"{source} has {len(agents)} agents; name one: {source}:{agents[0].__name__}")
    return agents[0]
