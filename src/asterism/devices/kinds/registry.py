"""The kinds of devices by name: the built-in ones, and those of installed packages.

A package brings a kind by an entry point of the group ``asterism.devices``: its name is that of the
kind, and its value a ``DeviceKind``. The package is imported when a fleet names the kind, and not before.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoints

from asterism.devices.fleet.fleet_file import DeviceKind
from asterism.devices.kinds.a2a.kind import A2A
from asterism.devices.kinds.local import LOCAL
from asterism.devices.kinds.mcp.kind import MCP
from asterism.devices.kinds.ssh.device import SSH
from asterism.engine.kernel.data import error_text
from asterism.errors import InvalidInput

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
            self._kinds[name] = self._imported(name)
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*self._kinds, *sorted(self._installed.names)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    @functools.cached_property
    def _installed(self) -> EntryPoints:
        from importlib.metadata import entry_points  # noqa: PLC0415 - reads a file of each installed package

        return entry_points(group=ENTRY_POINTS)

    def _imported(self, name: str) -> DeviceKind:
        """Return a kind of an installed package. Raises KeyError if none has it, and InvalidInput if it cannot be used."""
        points = self._installed.select(name=name)
        if not points:
            raise KeyError(name)
        if len(points) > 1:
            raise InvalidInput(
                f"{len(points)} installed packages have the kind {name!r}: {', '.join(sorted(point.value for point in points))}; remove one"
            )
        value = next(iter(points)).value
        try:
            kind = next(iter(points)).load()
        except Exception as error:  # boundary: the import of another package may raise anything
            raise InvalidInput(f"the kind {name!r} of an installed package, {value}, does not import: {error_text(error)}") from error
        if not isinstance(kind, DeviceKind):
            raise InvalidInput(f"the kind {name!r} of an installed package, {value}, is no DeviceKind but a {type(kind).__name__}")
        return kind
