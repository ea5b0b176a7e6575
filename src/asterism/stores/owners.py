"""Which processes drive runs of one database, and which of them live.

A process that drives holds an exclusive ``flock`` on a file of its own for as long as it lives; the file's
name is its id, which the runs it owns carry. The kernel lets the lock go with the process, whatever ends
it, so "is it alive" is "can its file be locked". Nobody waits, and no clock is asked.

Who looks takes a shared lock, so that two who look at once do not take each other for the owner. Ids are
never used twice, so a file found dead stays dead and can be removed by name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

import msgspec

from asterism.errors import StoreUnavailable
from asterism.runtime.private_files import make_folder, opener_within

_held: set[int] = set()
"""Locked files of this process."""


def _let_go_in_child() -> None:
    # A forked child shares the lock (an exec'd one does not) and would keep it when this process dies.
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)


class Holder(msgspec.Struct, frozen=True):
    """What an owner's file says."""

    pid: int
    host: str


class Owners:
    """The owners of one database.

    Args:
        folder: where their files are; made when the first one enters.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = -1
        self._me = ""

    def enter(self) -> str:
        """Become an owner, once; the id.

        Raises:
            StoreUnavailable: the file could not be made.
        """
        if not self._me:
            name = secrets.token_hex(8)
            try:
                make_folder(self._folder)
                self._descriptor = _lock_new(self._folder / name)
            except OSError as error:
                raise StoreUnavailable(f"owners folder {self._folder}: {error.strerror}; make it writable and free some space") from error
            self._me = name
        return self._me

    def living(self, owner: str) -> str:
        """Who an owner is, in words; empty when it is dead, and then its file is gone too."""
        # The name comes from a database: it must not lead out of the folder.
        if not owner.isalnum():
            return ""
        path = self._folder / owner
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return ""
        except OSError:
            # Not ours to look at, so not ours to rob.
            return "a process of another user"
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _words(descriptor) + (" (this one)" if owner == self._me else "")
        else:
            with contextlib.suppress(OSError):
                path.unlink()
            return ""
        finally:
            os.close(descriptor)

    def leave(self) -> None:
        """Stop being an owner; what is still owned can then be claimed by anybody."""
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


def _words(descriptor: int) -> str:
    try:
        holder = msgspec.json.decode(os.pread(descriptor, 4096, 0), type=Holder)
    except msgspec.DecodeError:
        return "another process"
    return f"process {holder.pid} on {holder.host}"
