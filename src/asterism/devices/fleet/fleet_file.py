"""The fleet file: TOML that lists devices.

Each error is one line: file, key, problem and allowed values.

The caller passes the kinds of devices (``app.bootstrap.device_kinds`` lists them), so that this module
imports none of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import os
import re
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Meta

from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.guards import DeviceGuards, SkillGuard, is_too_wide, joined
from asterism.engine.kernel.profile import HERE, AgentProfile, Fleet
from asterism.engine.ports.events import Hook
from asterism.engine.ports.notices import Channel
from asterism.engine.runtime.resources import ResourcePool, open_resources
from asterism.engine.runtime.task_group import in_own_task
from asterism.errors import AsterismError, InvalidInput, did_you_mean

if TYPE_CHECKING:
    from asterism.devices.workers.pool import WorkerPool

Table = TypeVar("Table")
Word = Annotated[str, Meta(pattern=r"^\S+$")]
Approval = Literal["", "always", "destructive"]
OPENED_AT_ONCE = 16
"""Devices that are opened at once: one that does not answer delays no other."""
ANSWER_S = 20.0
"""Seconds in which a remote device has to answer by default when it is opened."""
UNNEEDED_S = 2.0
"""Seconds from the first one, in which remote devices have to answer that no task needs."""

AGAIN = Backoff(1.0, 60.0, jitter=0.5)
"""Waits before a device is opened again."""
OPENED_WITHIN_S = 5.0
"""Seconds after which a device is opened that no task has needed so far."""
_MAX_SHOWN = 300

log = logging.getLogger("asterism.devices")


class GuardEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a fleet file guards: the keys of a device, and of ``[devices.guards.NAME]`` for one of its skills, commands or tools.

    Attributes:
        approval: ``always``, or ``destructive`` for what is marked so and for each tool of an MCP
            server that is not marked harmless; empty for none.
        destructive: marks a skill, command or tool.
        no_options, within, secrets, task_env, task_folder: as in ``SkillGuard``.
    """

    approval: Approval = ""
    destructive: bool = False
    no_options: tuple[str, ...] = ()
    within: dict[str, Annotated[str, Meta(pattern="^/")]] = msgspec.field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    task_env: tuple[str, ...] = ()
    task_folder: bool = False

    def __post_init__(self) -> None:
        if wide := next(filter(is_too_wide, self.task_env), ""):
            raise ValueError(f"task_env: {wide!r} would let others set almost any variable; name each, or their beginning as in APP_*")

    def guard(self, *, approval: bool) -> SkillGuard:
        """Return the guard; ``approval`` says if the device or the skill needs one."""
        return SkillGuard(
            approval=approval,
            no_options=self.no_options,
            within={name: (folder,) for name, folder in self.within.items()},
            secrets=self.secrets,
            task_env=self.task_env,
            task_folder=self.task_folder,
        )


class DeviceEntry(GuardEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of every ``[[devices]]`` table; each kind adds its own.

    See AgentProfile for their meaning.
    """

    tools_are_foreign: ClassVar[bool] = False
    """True if another program names the skills: they may come later, and count as destructive unless they are marked harmless."""

    id: Word
    kind: str = "local"
    description: str = ""
    aliases: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    concurrency: Annotated[int, Meta(ge=1)] = 1
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    guards: dict[str, GuardEntry] = msgspec.field(default_factory=dict)

    def profile(self, **fields: Any) -> AgentProfile:
        """Return the profile of the device, with these fields in addition or instead."""
        own = {name: getattr(self, name) for name in _PROFILED}
        profile = AgentProfile(**{"device_id": self.id, **own, **fields})
        return msgspec.structs.replace(profile, guards=self._guards_of(profile))

    def _guards_of(self, profile: AgentProfile) -> DeviceGuards:
        """Return what the table guards on a device."""
        skills = profile.skills
        harmless = {skill.name for skill in skills if skill.is_harmless}
        unknown = [name for name in self.guards if name not in {skill.name for skill in skills}]
        if unknown and profile.natural_language and not skills:
            raise InvalidInput(f"guards: a device of kind {self.kind} has no skills, so {unknown[0]!r} guards nothing; guard the device")
        if unknown and skills and not self.tools_are_foreign:
            names = [skill.name for skill in skills]
            hint = did_you_mean(unknown[0], names) or f"; there is {', '.join(names)}"
            raise InvalidInput(f"guards: there is no skill {unknown[0]!r}{hint}")
        is_guarded = self.destructive or self.tools_are_foreign
        every = self.guard(approval=self._asks(self, is_destructive=is_guarded))
        found = {}
        for name in (*self.guards, *harmless):
            own = self.guards.get(name, GuardEntry())
            is_destructive = own.destructive or (is_guarded and name not in harmless)
            found[name] = joined(own.guard(approval=self._asks(own, is_destructive=is_destructive)), every)
        return DeviceGuards(every=every, skills={name: guard for name, guard in found.items() if guard != every})

    def _asks(self, own: GuardEntry, *, is_destructive: bool) -> bool:
        return "always" in (self.approval, own.approval) or (is_destructive and "destructive" in (self.approval, own.approval))


_PROFILED = ("kind", "description", "aliases", "capabilities", "concurrency", "metadata")


class FleetContext(msgspec.Struct, frozen=True):
    """What devices are opened with.

    Attributes:
        folder: the folder of the fleet file, to which paths are relative.
        database: path of the database of their runs.
        workers: returns the pool of workers of this process.
    """

    folder: Path
    database: Path
    workers: Callable[[], WorkerPool]


class DeviceKind(msgspec.Struct, frozen=True):
    """One kind of device.

    Attributes:
        entry: type of its table, a DeviceEntry.
        open: opens the device of a table, and closes it at the end, as an async context manager. Its
            InvalidInput begins with the key relative to the table: ``skills[2]: …``. One task both
            enters and exits it, so that it may hold task groups.
        is_remote: True if opening may wait for another computer or program.
    """

    entry: type[DeviceEntry]
    open: Callable[[Any, FleetContext], AbstractAsyncContextManager[Device]]
    is_remote: bool = False


Kinds = Mapping[str, DeviceKind]


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables of a fleet file, its name for people, and if who has submitted a run may approve in it."""

    name: str = ""
    submitter_may_approve: bool = True
    devices: tuple[dict[str, Any], ...] = ()
    notify: tuple[Channel, ...] = ()
    hooks: tuple[Hook, ...] = ()


def read_channels(path: Path) -> tuple[Channel, ...]:
    """Return the channels of a fleet file, where its server sends messages. Raises InvalidInput as ``read_fleet``."""
    channels = _document(path).notify
    _check_names(path, "notify", [it.name for it in channels])
    return channels


def read_hooks(path: Path) -> tuple[Hook, ...]:
    """Return the hooks of a fleet file, where other systems post events. Raises InvalidInput as ``read_fleet``."""
    hooks = _document(path).hooks
    _check_names(path, "hooks", [it.name for it in hooks])
    return hooks


def _check_names(path: Path, key: str, names: Sequence[str]) -> None:
    if shared := next((name for name in names if names.count(name) > 1), ""):
        raise InvalidInput(f"{path}: {key}: two tables have the name {shared!r}; give each its own")


def submitter_may_approve(path: Path | None) -> bool:
    """Return if a fleet file lets the submitter of a run approve in it, as without a file. Raises InvalidInput as ``read_fleet``."""
    return path is None or _document(path).submitter_may_approve


def check_channels(path: Path | None, named: Sequence[str]) -> None:
    """Check that a fleet file, if there is one, has the channels that a run names. Raises InvalidInput."""
    known = [it.name for it in read_channels(path)] if path and named else list(named)
    for name in named:
        if name not in known:
            hint = did_you_mean(name, known) or f"; it has {', '.join(known) or 'none'}"
            raise InvalidInput(f"--notify {name}: {path} has no such channel{hint}")


def read_fleet(path: Path, kinds: Kinds) -> tuple[DeviceEntry, ...]:
    """Return the tables of a fleet file, in its order; no device is opened.

    Raises:
        InvalidInput: the file is missing, is not TOML, or has an invalid key or value.
    """
    return _entries(_document(path), str(path), kinds)


def check_text(text: str, named: str, kinds: Kinds) -> tuple[DeviceEntry, ...]:
    """Return the tables of the text of a fleet file; raises as ``read_fleet``."""
    return _entries(_parsed(text, named), named, kinds)


def _entries(document: _Document, named: str, kinds: Kinds) -> tuple[DeviceEntry, ...]:
    if not (document.devices or document.notify or document.hooks):
        raise InvalidInput(f"{named}: devices: there are none; add a [[devices]] table with an id")
    return check_tables(document.devices, kinds, named)


def check_tables(tables: Sequence[dict[str, Any]], kinds: Kinds, named: str) -> tuple[DeviceEntry, ...]:
    """Return the tables of devices as entries; ``named`` names their fleet in errors.

    Raises:
        InvalidInput: a table has an invalid key or value, or two devices share a name.
    """
    entries = tuple(_entry(raw, kinds, named, index) for index, raw in enumerate(tables))
    _refuse_shared_names(entries, named)
    return entries


@contextlib.asynccontextmanager
async def open_tables(
    entries: Sequence[DeviceEntry],
    kinds: Kinds,
    context: FleetContext,
    named: str,
    *,
    every: bool = True,
    needed: Collection[str] | None = None,
) -> AsyncIterator[dict[str, Device]]:
    """Open devices, several at once; yield them by id, in the order of ``entries``, and close them at the end.

    Args:
        entries: their tables.
        kinds: the kinds, by name.
        context: what they are opened with.
        named: name of the fleet, with which errors begin.
        every: False to return an ``UnopenedDevice`` for each device that cannot be opened.
        needed: ids of the devices that tasks need; None if each one may be. Another one that does not
            answer at once is an ``UnopenedDevice`` without a reason.

    Raises:
        InvalidInput, MissingExtra: with ``every``, a device cannot be opened; of several such
            devices, the error is about the first.
    """
    async with open_resources() as resources:
        yield await _opened(entries, kinds, functools.partial(_open_one, resources, kinds, context), named, every=every, needed=needed)


async def _open_one(resources: ResourcePool, kinds: Kinds, context: FleetContext, entry: DeviceEntry) -> Device:
    try:
        return await resources.get(entry.id, lambda: kinds[entry.kind].open(entry, context))
    except asyncio.CancelledError:  # it has not answered in time; the next try opens another one
        resources.forget(entry.id)
        raise


async def _opened(
    entries: Sequence[DeviceEntry],
    kinds: Kinds,
    open_one: Callable[[DeviceEntry], Awaitable[Device]],
    named: str,
    *,
    every: bool,
    needed: Collection[str] | None,
) -> dict[str, Device]:
    """Return the devices of ``open_tables``."""
    devices: dict[str, Device] = {}
    errors: dict[int, AsterismError] = {}
    now = asyncio.get_running_loop().time
    until = now() + UNNEEDED_S
    spared = {entry.id for entry in entries if kinds[entry.kind].is_remote and needed is not None and entry.id not in needed}
    waiting = iter(sorted(enumerate(entries), key=lambda it: it[1].id in spared))

    async def open_each() -> None:
        for index, entry in waiting:
            opened = functools.partial(open_one, entry)
            within_s = until - now() if entry.id in spared else ANSWER_S
            if within_s <= 0:
                devices[entry.id] = _unopened(entry, "", opened)
                continue
            try:
                async with asyncio.timeout(within_s if kinds[entry.kind].is_remote else None):
                    devices[entry.id] = await opened()
            except TimeoutError:
                why = "" if entry.id in spared else f"it has not answered within {within_s:g} s"
                devices[entry.id] = _unopened(entry, why, opened)
            except AsterismError as error:
                errors[index] = _placed(error, named, index, entry)
                devices[entry.id] = _unopened(entry, str(errors[index]), opened)
            if errors and every:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(min(OPENED_AT_ONCE, len(entries))):
            group.create_task(open_each())
    if errors and every:
        raise errors[min(errors)]
    for index in sorted(errors):
        log.info("device %s cannot be used: %s", entries[index].id, errors[index])
    return {entry.id: devices[entry.id] for entry in entries}


def _placed(error: AsterismError, named: str, index: int, entry: DeviceEntry) -> AsterismError:
    """Return the error of a device with its place in the fleet."""
    if not isinstance(error, InvalidInput):
        return error
    placed = InvalidInput(f"{named}: {_place(index, entry.id)}.{error}")
    placed.__cause__ = error
    return placed


def _unopened(entry: DeviceEntry, why: str, opened: Callable[[], Awaitable[Device]]) -> UnopenedDevice:
    profile = entry.profile(
        description=described(entry.description, why) if why else entry.description, file_bytes=None if entry.kind == "local" else 0
    )
    return UnopenedDevice(profile, why, opened)


class UnopenedDevice(Device):
    """A device that is not open. With a reason it counts as lost until it can be opened.

    Without one it is opened as soon as an attempt needs it, and after ``OPENED_WITHIN_S`` at the latest.

    Args:
        profile: the profile that its table gives it, without skills.
        why: the reason why it could not be opened; empty if it has not answered yet.
        open_again: opens it.
    """

    def __init__(self, profile: AgentProfile, why: str, open_again: Callable[[], Awaitable[Device]]) -> None:
        super().__init__(profile)
        self.unreachable = why
        self._open_again = open_again
        self._needed = asyncio.Event()
        self._tried = asyncio.Event()
        self._device: Device | None = None

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        if not self.unreachable:
            self._needed.set()
            await self._tried.wait()
        if self._device is not None:
            return await self._device.perform(attempt, signs)
        return AttemptResult.failed("device_lost", self.unreachable)

    async def opened(self, failed: Callable[[str], None] = lambda _: None, chance: Callable[[], float] = lambda: 0.0) -> Device:
        """Return the device as soon as it can be opened; it is tried again after growing waits.

        ``failed`` receives each reason why it could not be opened, and ``chance`` shortens the waits.
        """
        if was_lost := bool(self.unreachable):
            await asyncio.sleep(AGAIN.wait_s(1, chance()))
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OPENED_WITHIN_S):
                    await self._needed.wait()
        for tries in itertools.count(1):  # bounded: its waits grow, and it ends with the dispatcher
            try:
                self._device = await in_own_task(self._open_again)
            except Exception as error:  # boundary: a kind may raise anything while it opens a device; it is tried again
                log.info("device %s cannot be used: %s", self.profile.device_id, error)
                self.unreachable = self.unreachable or str(error) or type(error).__name__
                failed(self.unreachable)
            self._tried.set()
            if self._device is not None:
                return self._device
            await asyncio.sleep(AGAIN.wait_s(tries + was_lost, chance()))
        raise AssertionError("the count does not end")


def described(description: str, why: str) -> str:
    """Return the description of a device that cannot be used, with the reason, cut."""
    reason = " ".join(why.split())
    return f"{description} (cannot be used: {reason if len(reason) <= _MAX_SHOWN else reason[: _MAX_SHOWN - 1] + '…'})".strip()


def declared_kinds(path: Path) -> dict[str, str]:
    """Return the kinds of the devices of a fleet file by id; nothing is opened. Raises InvalidInput if it is missing, or is not TOML."""
    return {str(table.get("id")): str(table.get("kind", "local")) for table in _document(path).devices}


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


def fleet_name(path: Path | None, profiles: Fleet) -> str:
    """Return the name by which a server knows a fleet: the name in its file, else the path of the file.

    Two files without a name are different fleets, also if both are called ``fleet.toml``. A fleet in
    Python has the name that its devices have.

    Raises:
        InvalidInput: the file is missing, or is not TOML.
    """
    if path is None:
        return next((profile.fleet for profile in profiles.values() if profile.fleet), "")
    return _document(path).name or os.path.realpath(path)


def _document(path: Path) -> _Document:
    try:
        return _parsed(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise InvalidInput(f"{path}: the fleet file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: not TOML: it is not UTF-8 text (byte {error.start})") from error
    except ValueError as error:  # a NUL
        raise InvalidInput(f"{str(path)!r}: the fleet file cannot be read: {error}") from error


def _parsed(text: str, named: str) -> _Document:
    try:
        return _converted(tomllib.loads(text), _Document, named, "")
    except (ValueError, RecursionError) as error:  # also an integer with thousands of digits, which is no TOMLDecodeError
        raise InvalidInput(f"{named}: not TOML: {error}") from error


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
    """Return the keys of the table at ``inner``, a path like ``.commands[0]`` or ``.guards[...]``, under ``struct``."""
    here: Any = msgspec.inspect.type_info(struct)
    for name, index in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", inner):
        if name:
            here = next(field.type for field in here.fields if field.encode_name == name)
        else:
            here = here.value_type if index == "..." else here.item_type
    return tuple(sorted((field.encode_name for field in here.fields), key=GuardEntry.__struct_fields__.__contains__))


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
