"""The places of a device, which all processes that share a database have in common.

A device that performs N attempts at a time has N places, each a file with a ``flock``. The process
that dispatches an attempt takes the lock, and hands its descriptor to the process that performs the
attempt. So the place becomes free only when the attempt is over, or when both processes are dead.

A descendant of the attempt can outlive them without the descriptor. So the file also names the
process group of the attempt. A process that finds such a group alive kills it if the process that
dispatched the attempt is dead, and waits otherwise.

A file that is deleted while its place is taken would let another process make a new one. So a
process that makes a file looks first for processes that have a deleted one of that name open.

A process that waits for a place shares a lock on another file. A process that has had places for a
while sees that, and leaves the next free one to the others.

A device that is draining gives no place to a new attempt, in any process, until that ends. A file
says so, and outlasts every process.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

from asterism.devices.attempts.processes import ProcessGroup, is_deleted_but_open, start_mark
from asterism.devices.fleet.fleet_file import shared_name, shared_names
from asterism.devices.port import Device
from asterism.engine.kernel.profile import Fleet
from asterism.engine.runtime.private_files import make_folder, opener_within

TURN_S = 5.0
"""Seconds for which a process may have the places of a device while another one waits for them."""

_held: set[int] = set()
"""Locked files of this process."""
_RECORD_BYTES = 512
_BLANK = b" " * _RECORD_BYTES
_NAME_LENGTH = 200


def _close_in_child() -> None:
    # A forked child shares the locks, and would hold them after this process dies.
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


class _Holder(msgspec.Struct, frozen=True):
    """The content of a place's file: the group of its attempt, and the process that dispatched it, with its start."""

    group: ProcessGroup
    owner: int
    owner_born: str


class Drain(msgspec.Struct, frozen=True):
    """Who has set a device to drain, and when, in seconds since the epoch."""

    by: str = ""
    at: float = 0.0


class LockedPlace:
    """A place that this process holds for one attempt, until :meth:`release`."""

    def __init__(self, places: Places, number: int, descriptor: int) -> None:
        self._places = places
        self._number = number
        self._descriptor = descriptor

    def hand_to(self, group: int, born: str) -> int:
        """Record the process group that performs the attempt; return the descriptor to send to it.

        Args:
            group: pid of its leader.
            born: the leader's ``start_mark``.
        """
        owner = os.getpid()
        record = msgspec.json.encode(_Holder(ProcessGroup(group, born), owner, start_mark(owner) or ""))
        os.pwrite(self._descriptor, record.ljust(_RECORD_BYTES), 0)
        return self._descriptor

    def returned(self) -> None:
        """Note that the attempt left nothing running in its process group, which goes on."""
        os.pwrite(self._descriptor, _BLANK, 0)

    def release(self) -> None:
        """Free the place. Other holders of the descriptor lose the lock, too."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        _held.discard(self._descriptor)
        os.close(self._descriptor)
        self._places.taken.discard(self._number)


class Places:
    """The places of one device.

    Args:
        folder: folder with the places of all devices; made when a place is first taken.
        device: name of the device, unique in the folder.
        count: number of attempts at a time.

    Attributes:
        folder: as given.
        taken: numbers of the places that this process holds.
    """

    def __init__(self, folder: Path, device: str, count: int) -> None:
        self.folder = folder
        name = quote(device, safe=" ")
        self._name = name if len(name) <= _NAME_LENGTH else hashlib.sha256(name.encode()).hexdigest()
        self._count = count
        self._waiting = -1  # descriptor of the lock that this process shares while it waits
        self._turn_since: float | None = None
        self.taken: set[int] = set()

    def take(self, *, is_new: bool = True) -> LockedPlace | None:
        """Return a free place, or None if other processes, or attempts of this one, have them all, or the device is draining.

        An attempt that is not new gets a place of a device that is draining, too. This does not wait, but lets
        other processes see that this one does, until it gets a place or calls :meth:`leave`.

        Raises:
            OSError: the files cannot be made or locked.
        """
        make_folder(self.folder)
        if is_new and self.draining() is not None:
            return None
        for number in range(self._count):
            if number not in self.taken and (descriptor := self._locked(number)) is not None:
                self.taken.add(number)
                self._stop_waiting()
                return LockedPlace(self, number, descriptor)
        self._turn_since = None
        if self._waiting >= 0 and not self._is_current(self._waiting, "waiting"):
            self._stop_waiting()
        if self._waiting < 0:
            self._waiting = self._open("waiting")
            fcntl.flock(self._waiting, fcntl.LOCK_SH)
            _held.add(self._waiting)
        return None

    def is_turn_over(self, now: float) -> bool:
        """Return True, once, if this process has had places for its turn and another one waits.

        Args:
            now: seconds, of a monotonic clock.
        """
        if self._turn_since is None:
            self._turn_since = now
        if now - self._turn_since < TURN_S:
            return False
        descriptor = self._open("waiting")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._turn_since = None
            return True
        finally:
            os.close(descriptor)
        return False

    def drain(self, by: str, at: float) -> None:
        """Give no place to new attempts, in any process, until ``resume``. Raises OSError."""
        make_folder(self.folder)
        descriptor = self._open("drain")
        with contextlib.closing(os.fdopen(descriptor, "wb")) as file:
            file.write(msgspec.json.encode(Drain(by, at)).ljust(_RECORD_BYTES))

    def resume(self) -> None:
        """Give places to new attempts again. Raises OSError."""
        Path(self._path("drain")).unlink(missing_ok=True)

    def draining(self) -> Drain | None:
        """Return who has set the device to drain; None if nobody has."""
        try:
            return msgspec.json.decode(Path(self._path("drain")).read_bytes(), type=Drain)
        except OSError:
            return None
        except msgspec.MsgspecError:  # its writer was killed
            return Drain()

    def leave(self) -> None:
        """Neither wait for a place nor continue the turn: there are no attempts."""
        self._turn_since = None
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._waiting >= 0:
            _held.discard(self._waiting)
            os.close(self._waiting)
            self._waiting = -1

    def _path(self, what: object) -> str:
        return str(self.folder / f"{self._name}.{what}")

    def _open(self, what: object) -> int:
        return opener_within(self._path(what), os.O_RDWR | os.O_CREAT)

    def _is_current(self, descriptor: int, what: object) -> bool:
        """Return False if the open file has been deleted."""
        try:
            return os.path.samestat(os.fstat(descriptor), Path(self._path(what)).stat())
        except FileNotFoundError:
            return False

    def _locked(self, number: int) -> int | None:
        """Return the descriptor of a place's file, locked; None if the place is not free."""
        with contextlib.ExitStack() as unless_free:
            descriptor = self._open(number)
            unless_free.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _clear(descriptor)
                return None
            if not self._is_current(descriptor, number) or not _clear(descriptor):
                return None
            size = os.fstat(descriptor).st_size
            if not size and is_deleted_but_open(self._path(number)):
                return None
            if size < _RECORD_BYTES:
                os.pwrite(descriptor, _BLANK, 0)  # so that the record has room however full the disk is by then
            unless_free.pop_all()
        _held.add(descriptor)
        return descriptor


def _clear(descriptor: int) -> bool:
    """Return True if nothing runs in the group that a place's file names; kill it if nobody waits for it."""
    try:
        holder = msgspec.json.decode(os.pread(descriptor, _RECORD_BYTES, 0), type=_Holder)
    except msgspec.DecodeError:
        return True  # empty, or its writer was killed before it sent the attempt
    if start_mark(holder.owner) == holder.owner_born:
        return not holder.group.still_runs()
    return not holder.group.kill()


def places_of(devices: Mapping[str, Device], profiles: Fleet, fleet_file: Path | None, database: Path) -> Mapping[str, Places]:
    """Return the places that the devices of a fleet with a name have in all processes that use a database."""
    names = _names_of(profiles, fleet_file)
    folder = _folder_of(database)
    return {name: Places(folder, names[name], device.profile.concurrency) for name, device in devices.items() if name in names}


def drains_of(profiles: Fleet, fleet_file: Path | None, database: Path) -> Mapping[str, Places]:
    """Return places of the devices of a fleet with a name, only to set them to drain and to see which are."""
    folder = _folder_of(database)
    return {name: Places(folder, named, 0) for name, named in _names_of(profiles, fleet_file).items()}


def _names_of(profiles: Fleet, fleet_file: Path | None) -> Mapping[str, str]:
    declared = {name: shared_name(profile.fleet, name) for name, profile in profiles.items() if profile.fleet}
    return shared_names(fleet_file) if fleet_file else declared


def _folder_of(database: Path) -> Path:
    return Path(os.path.realpath(database) + ".places")
