"""The fleet file: TOML that lists devices.

Each error is one line: file, key, problem and allowed values.

The caller passes the kinds of devices (``bootstrap.open_devices`` lists them), so that this module
imports none of them.
"""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from asterism.constellation.profile import HERE, AgentProfile
from asterism.errors import AsterismError, InvalidInput
from asterism.runtime.ports.device import Device

Table = TypeVar("Table")
Word = Annotated[str, Meta(pattern=r"^\S+$")]
OPENED_AT_ONCE = 16
"""Devices that are opened at once: one that does not answer delays no other."""


class DeviceEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of every ``[[devices]]`` table; each kind adds its own.

    See AgentProfile for their meaning.
    """

    id: Word
    kind: str = "local"
    description: str = ""
    aliases: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    concurrency: Annotated[int, Meta(ge=1)] = 1
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)

    def profile(self, **fields: Any) -> AgentProfile:
        """Return the profile of the device, with these fields in addition or instead."""
        own = {name: getattr(self, name) for name in DeviceEntry.__struct_fields__ if name != "id"}
        return AgentProfile(**{"device_id": self.id, **own, **fields})


class DeviceKind(msgspec.Struct, frozen=True):
    """One kind of device.

    Attributes:
        entry: type of its table, a DeviceEntry.
        open: opens the device of a table, given the fleet file's folder. Its InvalidInput begins
            with the key relative to the table: ``skills[2]: …``. Nothing closes a device: what it
            uses is opened and closed around ``open_fleet``, as the ``WorkerPool`` is.
    """

    entry: type[DeviceEntry]
    open: Callable[[Any, Path], Awaitable[Device]]


Kinds = Mapping[str, DeviceKind]


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables of a fleet file, and its name for people."""

    name: str = ""
    devices: tuple[dict[str, Any], ...] = ()


def read_fleet(path: Path, kinds: Kinds) -> tuple[DeviceEntry, ...]:
    """Return the tables of a fleet file, in its order; nothing is imported or started.

    Raises:
        InvalidInput: the file is missing, is not TOML, or has an invalid key or value.
    """
    document = _document(path)
    if not document.devices:
        raise InvalidInput(f"{path}: devices: there are none; add a [[devices]] table with an id")
    return check_tables(document.devices, kinds, str(path))


def check_tables(tables: Sequence[dict[str, Any]], kinds: Kinds, named: str) -> tuple[DeviceEntry, ...]:
    """Return the tables of devices as entries; ``named`` names their fleet in errors.

    Raises:
        InvalidInput: a table has an invalid key or value, or two devices share a name.
    """
    entries = tuple(_entry(raw, kinds, named, index) for index, raw in enumerate(tables))
    _refuse_shared_names(entries, named)
    return entries


async def open_fleet(path: Path, kinds: Kinds) -> dict[str, Device]:
    """Read a fleet file and open its devices; return them by id, in the order of the file.

    Raises:
        InvalidInput: as ``read_fleet``, or a device cannot be opened.
    """
    folder = path.absolute().parent  # noqa: ASYNC240 - it asks for the working directory only
    return await open_tables(read_fleet(path, kinds), kinds, folder, str(path))


async def open_tables(entries: Sequence[DeviceEntry], kinds: Kinds, folder: Path, named: str) -> dict[str, Device]:
    """Open devices, several at once; return them by id, in the order of ``entries``.

    Raises:
        InvalidInput: a device cannot be opened. The message begins with ``named``, the name of
            their fleet; of several such devices, it is about the first.
    """
    devices: dict[str, Device] = {}
    errors: dict[int, AsterismError] = {}
    waiting = iter(enumerate(entries))

    async def open_each() -> None:
        for index, entry in waiting:
            try:
                devices[entry.id] = await kinds[entry.kind].open(entry, folder)
            except AsterismError as error:
                errors[index] = error
            if errors:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(min(OPENED_AT_ONCE, len(entries))):
            group.create_task(open_each())
    if errors:
        index = min(errors)
        if isinstance(errors[index], InvalidInput):
            raise InvalidInput(f"{named}: {_place(index, entries[index].id)}.{errors[index]}") from errors[index]
        raise errors[index]
    return {entry.id: devices[entry.id] for entry in entries}


def shared_name(fleet: str, device_id: str) -> str:
    """Return the name by which all processes know a device of a fleet with a name."""
    return f"{fleet} {device_id}"


def shared_names(path: Path) -> dict[str, str]:
    """Return the devices of a fleet file, by id, under the names that all processes know them by.

    Raises:
        InvalidInput: the file is missing, or is not TOML.
    """
    document = _document(path)
    return {(name := str(table.get("id"))): shared_name(document.name or path.stem, name) for table in document.devices}


def _document(path: Path) -> _Document:
    try:
        return _converted(tomllib.loads(path.read_text(encoding="utf-8")), _Document, str(path), "")
    except OSError as error:
        raise InvalidInput(f"{path}: the fleet file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: not TOML: it is not UTF-8 text (byte {error.start})") from error
    except (ValueError, RecursionError) as error:  # also an integer with thousands of digits, which is no TOMLDecodeError
        raise InvalidInput(f"{path}: not TOML: {error}") from error


def _place(index: int, device_id: object) -> str:
    return f"devices[{index}] ({device_id})" if isinstance(device_id, str) and device_id else f"devices[{index}]"


def _entry(raw: dict[str, Any], kinds: Kinds, named: str, index: int) -> DeviceEntry:
    place = _place(index, raw.get("id"))
    kind = raw.get("kind", "local")
    if not isinstance(kind, str) or kind not in kinds:
        raise InvalidInput(f"{named}: {place}.kind: unknown kind {kind!r}; allowed: {', '.join(sorted(kinds))}")
    return _converted(raw, kinds[kind].entry, named, place)


def _converted(raw: object, to: type[Table], named: str, place: str) -> Table:
    """Return ``raw`` as the type ``to``; InvalidInput names the place of the problem."""
    try:
        return msgspec.convert(raw, to, strict=True)
    except msgspec.ValidationError as error:
        what, _, inner = str(error).partition(" - at `$")
        inner = inner.rstrip("`")
        where = f"{place}{inner}".lstrip(".")
        if unknown := re.search(r"unknown field `(.*)`", what):
            what = f"unknown key {unknown[1]!r}; allowed: {', '.join(_keys(to, inner))}"
        raise InvalidInput(f"{named}: {where + ': ' if where else ''}{what.replace('`', '')}") from error


def _keys(struct: type, inner: str) -> tuple[str, ...]:
    """Return the keys of the table at ``inner``, a path like ``.commands[0]``, under ``struct``."""
    here: Any = msgspec.inspect.type_info(struct)
    for name, index in re.findall(r"\.(\w+)|(\[\d+\])", inner):
        here = here.item_type if index else next(field.type for field in here.fields if field.encode_name == name)
    return tuple(field.encode_name for field in here.fields)


def _refuse_shared_names(entries: tuple[DeviceEntry, ...], named: str) -> None:
    """Reject devices that share an id or an alias: a request could mean either."""
    owners: dict[str, int] = {}
    for index, entry in enumerate(entries):
        if entry.id == HERE:
            raise InvalidInput(
                f"{named}: {_place(index, entry.id)}.id: {HERE!r} is the device of a program's own functions; choose another id"
            )
        if entry.id in (each.id for each in entries[:index]):
            raise InvalidInput(f"{named}: {_place(index, entry.id)}.id: there is another device {entry.id!r}; ids are unique")
        names = [("id", entry.id), *((f"aliases[{number}]", alias) for number, alias in enumerate(entry.aliases))]
        for key, name in names:
            other = owners.setdefault(name.casefold(), index)
            if other != index:
                raise InvalidInput(f"{named}: {_place(index, entry.id)}.{key}: {name!r} already names device {entries[other].id!r}")
