"""The kinds of devices by name: the built-in ones, and those of installed packages.

A package brings a kind by an entry point of the group ``asterism.devices``: its name is that of the
kind, and its value a ``DeviceKind``. The package is imported when a fleet names the kind, and not before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from asterism.devices.fleet.fleet_file import DeviceKind
from asterism.devices.kinds.a2a.kind import A2A
from asterism.devices.kinds.local import LOCAL
from asterism.devices.kinds.mcp.kind import MCP
from asterism.devices.kinds.ssh.device import SSH
from asterism.engine.runtime.entry_points import names_of, part_of

ENTRY_POINTS = "asterism.devices"
KINDS: Mapping[str, DeviceKind] = {"local": LOCAL, "ssh": SSH, "mcp": MCP, "a2a": A2A}
"""The built-in kinds that perform attempts."""


class DeviceKinds(Mapping[str, DeviceKind]):
    """Kinds of devices by name; looking up one of an installed package imports the package.

    Args:
        built_in: the built-in kinds, which no package replaces.

    Attributes:
        built_in: their names.
    """

    def __init__(self, built_in: Mapping[str, DeviceKind]) -> None:
        self.built_in = tuple(built_in)
        self._kinds = dict(built_in)

    def __getitem__(self, name: str) -> DeviceKind:
        if name not in self._kinds:
            self._kinds[name] = part_of(ENTRY_POINTS, name, DeviceKind, "kind")
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*self._kinds, *names_of(ENTRY_POINTS)])

    def __len__(self) -> int:
        return len(list(iter(self)))
