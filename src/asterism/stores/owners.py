"""The owner processes of one database, and which of them are alive.

Of a database in a file, a process that drives runs holds an exclusive ``flock`` on a file of its own while it lives. The
file's name is the owner id in the runs it owns. The kernel releases the lock when the process ends,
however it ends, so an owner is alive as long as its file cannot be locked. No timeout and no clock
is involved.

A check takes a shared lock, so that two checks at once do not mistake each other for the owner. Ids
are never used twice, so a dead owner's file stays dead, and can be removed by name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from pathlib import Path
from typing import Protocol

import msgspec

from asterism.engine.ports.store import ProcessRow
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.private_files import make_folder, opener_within
from asterism.errors import DISTRIBUTION, StoreUnavailable, how_to_write_there

_held: set[int] = set()
"""Locked files of this process."""


def _close_in_child() -> None:
    # A forked child shares the lock (an exec'd one does not), and would hold it after this process
    # dies.
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of an owner's file.

    Attributes:
        serves: True for a server, with the name of its ``fleet`` and the path of its file, the address of
            its API, the time ``since`` which it serves, and the ``version`` of Asterism.
    """

    pid: int
    host: str
    serves: bool = False
    fleet: str = ""
    fleet_file: str = ""
    url: str = ""
    since: float = 0.0
    version: str = ""


MAX_BYTES = 65_536
"""Bytes of an owner's file that are read."""
_SHOWN = ("serves", "fleet", "fleet_file", "url", "since", "version")


class Owners(Protocol):
    """The owner processes of one database."""

    def enter(self) -> str:
        """Make this process an owner, once, and return its id. Raises StoreUnavailable."""
        ...

    def live_owner(self, owner: str) -> str:
        """Return a live owner in words; empty if it is dead."""
        ...

    def announce_server(self, fleet: str, url: str, fleet_file: str = "") -> None:
        """Say that this process serves a fleet. Raises StoreUnavailable."""
        ...

    def list_processes(self) -> list[ProcessRow]:
        """Return the live owners."""
        ...

    def leave(self) -> None:
        """Stop being an owner; other processes can acquire the runs that are still owned."""
        ...


class FileOwners:
    """The owners of a database in a file, each with a file of its own.

    Args:
        folder: folder of their files; made when the first owner enters.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = -1
        self._me = ""
        self._since = 0.0

    def enter(self) -> str:
        if not self._me:
            name = secrets.token_hex(8)
            try:
                make_folder(self._folder)
                self._descriptor = _lock_new(self._folder / name)
            except OSError as error:
                raise StoreUnavailable(f"owners folder {self._folder}: {error.strerror}; {how_to_write_there(error)}") from error
            self._me = name
        return self._me

    def live_owner(self, owner: str) -> str:
        # The name comes from a database, and must not lead out of the folder.
        if not owner.isalnum():
            return ""
        path = self._folder / owner
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return ""
        except OSError:
            # The file cannot be read, so the run cannot be taken over either.
            return "a process of another user"
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _words(descriptor) + (" (this one)" if owner == self._me else "")
        else:
            with contextlib.suppress(OSError):  # of a dead owner
                path.unlink()
            return ""
        finally:
            os.close(descriptor)

    def announce_server(self, fleet: str, url: str, fleet_file: str = "") -> None:
        import importlib.metadata  # noqa: PLC0415 - delays the start of every command by 10 ms

        self.enter()
        self._since = self._since or SystemClock().now()
        holder = Holder(
            os.getpid(),
            os.uname().nodename,
            serves=True,
            fleet=fleet,
            fleet_file=fleet_file,
            url=url,
            since=self._since,
            version=importlib.metadata.version(DISTRIBUTION),
        )
        content = msgspec.json.encode(holder)
        os.pwrite(self._descriptor, content.ljust(os.fstat(self._descriptor).st_size), 0)  # one write: readers see all or nothing

    def list_processes(self) -> list[ProcessRow]:
        try:
            paths = sorted(self._folder.iterdir())
        except FileNotFoundError:
            return []
        # A file without content is being made: it is not locked yet, and must not be taken for a dead owner's.
        return [
            ProcessRow(description=words, **{name: getattr(holder, name) for name in _SHOWN})
            for path in paths
            if (holder := _holder(path)) and (words := self.live_owner(path.name))
        ]

    def leave(self) -> None:
        if self._descriptor in _held:
            with contextlib.suppress(OSError):
                (self._folder / self._me).unlink()
            _held.discard(self._descriptor)
            os.close(self._descriptor)
        self._descriptor = -1
        self._me = ""


def _lock_new(path: Path) -> int:
    with contextlib.ExitStack() as on_failure:
        descriptor = opener_within(str(path), os.O_RDWR | os.O_CREAT | os.O_EXCL)
        on_failure.callback(os.close, descriptor)
        on_failure.callback(path.unlink)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, msgspec.json.encode(Holder(os.getpid(), os.uname().nodename)))
        on_failure.pop_all()
    _held.add(descriptor)
    return descriptor


def _holder(path: Path) -> Holder | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.DecodeError):
        return None


def _words(descriptor: int) -> str:
    try:
        holder = msgspec.json.decode(os.pread(descriptor, MAX_BYTES, 0), type=Holder)
    except msgspec.DecodeError:
        return "another process"
    return f"process {holder.pid} on {holder.host}"
