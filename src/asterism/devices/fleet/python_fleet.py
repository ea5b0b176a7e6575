"""Fleets that are written in Python: the same devices as the tables of a fleet file.

A journal has the table of each such device, so that a resumed run opens it again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from asterism.devices.port import Device as DevicePort
from asterism.devices.skills.source import is_importable, rebase, source_of
from asterism.engine.kernel.profile import AgentProfile
from asterism.errors import InvalidInput


class NamedDefinition(Protocol):
    """An object that other processes find by its name, such as a loop."""

    @property
    def definition(self) -> str:
        """Return its name, as ``module:name`` or ``file.py:name``."""
        ...


class DeclaredDevice:
    """A device of a fleet in Python; its public name is ``asterism.Device``.

    Args:
        device_id: its id.
        skills: functions, or their sources as in a fleet file.
        commands: programs as skills: the tables ``[[devices.commands]]`` of a fleet file.
        loop: a loop that carries out its tasks.
        flow: a flow agent that carries out its tasks.
        concurrency: number of tasks at once.
        env: environment variables of its processes, over those of the program.
        folder: working folder of its skills and commands; a relative path counts from the file that
            declares the device. By default the folder where a run was submitted.
        description, aliases, capabilities, metadata: for planners.
        guarded: what the fleet guards, by the keys of a fleet file: ``approval``, ``guards``, ``no_options``,
            ``within``, ``secrets``, ``task_env``, ``task_folder``.

    Raises:
        InvalidInput: a function, loop or agent cannot be imported by other processes.
    """

    def __init__(
        self,
        device_id: str,
        /,
        *,
        skills: Iterable[Callable[..., Any] | str] = (),
        commands: Sequence[Mapping[str, Any]] = (),
        loop: NamedDefinition | str = "",
        flow: type | str = "",
        concurrency: int = 1,
        env: Mapping[str, str] = {},
        folder: Path | str = "",
        description: str = "",
        aliases: Sequence[str] = (),
        capabilities: Sequence[str] = (),
        metadata: Mapping[str, Any] = {},
        **guarded: Any,
    ) -> None:
        caller = inspect.currentframe()
        file = caller.f_back.f_globals.get("__file__", "") if caller and caller.f_back else ""
        self.folder = Path(file).absolute().parent if file else Path.cwd()
        given = {
            "kind": "agent" if loop else "flow" if flow else "local",
            "skills": [self._source(device_id, it) for it in skills],
            "commands": [dict(command) for command in commands],
            "loop": loop if isinstance(loop, str) else loop.definition,
            "flow": flow and self._source(device_id, flow),
            "env": dict(env),
            "folder": folder and str(self.folder / folder),
            "description": description,
            "aliases": list(aliases),
            "capabilities": list(capabilities),
            "metadata": dict(metadata),
            **guarded,
        }
        self.table: dict[str, Any] = {"id": device_id, "concurrency": concurrency, **{name: it for name, it in given.items() if it}}

    def _source(self, device_id: str, what: Callable[..., Any] | str) -> str:
        if isinstance(what, str):
            return rebase(what, self.folder)
        source = source_of(what)
        if not is_importable(source):
            raise InvalidInput(f"device {device_id}: {source} cannot be imported by other processes; define it at the top level of a file")
        return source


Device = DeclaredDevice
"""Its name in programs."""


class Fleet:
    """The devices of a program.

    Args:
        devices: its devices.
        name: name under which all processes that use the same database share the places of its devices,
            as those of a fleet file of that name; by default each process has places of its own.
    """

    def __init__(self, *devices: DeclaredDevice, name: str = "") -> None:
        self.name = name
        self.tables = tuple(device.table for device in devices)
        self.folder = devices[0].folder if devices else Path.cwd()

    @classmethod
    def from_profiles(cls, profiles: Iterable[AgentProfile]) -> Fleet | None:
        """Return the fleet of the profiles whose devices were declared in Python; None if there are none."""
        declared = {profile.device_id: profile for profile in profiles if profile.table}
        made = cls(name=next((profile.fleet for profile in declared.values()), ""))
        made.tables = tuple(profile.table for profile in declared.values())
        return made if made.tables else None

    def described(self, devices: Mapping[str, DevicePort]) -> dict[str, AgentProfile]:
        """Return the profiles of devices, each with its table if it has one here."""
        tables = {table["id"]: table for table in self.tables}
        return {
            name: msgspec.structs.replace(device.profile, table=tables.get(name, {}), fleet=self.name) for name, device in devices.items()
        }
