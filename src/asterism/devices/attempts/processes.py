"""Control of processes on Linux: the identity of a process, its group, and the groups that a killed owner has left.

A pid is reused, so the identity of a process is its pid with its start time.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from asterism.engine.runtime.private_files import make_folder, opener_within
from asterism.errors import StoreUnavailable, how_to_write_there

_PROC = Path("/proc")
_GROUP_FIELD = 2  # of /proc/<pid>/stat, counted after the name: state, parent, group, …
_START_FIELD = 19
_SUFFIX = ".workers"
_GONE_WITHIN_S = 5.0
_POLL_S = 0.01


def start_mark(pid: int) -> str | None:
    """Return the start of a process as a word to compare; None if there is none, or a zombie."""
    fields = _stat(pid)
    return None if fields is None else f"{fields[_START_FIELD]}{_boot_mark()}"


def group_lives(group: int) -> bool:
    """Return True if a process of the group still runs; zombies do not count."""
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return any(fields is not None and fields[_GROUP_FIELD] == str(group) for fields in map(_stat, pids))


class ProcessGroup(msgspec.Struct, frozen=True):
    """A process group: its leader, and the start of it."""

    leader: int
    born: str

    @classmethod
    def of(cls, leader: int) -> ProcessGroup:
        """Return the group of a leader that has just been started."""
        return cls(leader, start_mark(leader) or "unknown")

    def still_runs(self) -> bool:
        """Return True if a process of the group still runs, even without the leader.

        No process gets the number of a group that still exists, so the number means the same group
        until the next boot.
        """
        mark = start_mark(self.leader)
        return mark == self.born or (mark is None and self.born.endswith(_boot_mark()) and group_lives(self.leader))

    def kill(self, number: int = signal.SIGKILL) -> bool:
        """Send a signal to the group; return False if it does not run any more."""
        if not self.still_runs():
            return False
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader, number)
        return True


def is_deleted_but_open(path: str) -> bool:
    """Return True if a process that this user may inspect has a deleted file of that path open."""
    gone = Path(f"{os.path.realpath(path)} (deleted)")
    for descriptor in glob.iglob(f"{_PROC}/[0-9]*/fd/[0-9]*"):  # noqa: PTH207 - Path.glob raises if a process ends meanwhile
        with contextlib.suppress(OSError):  # closed meanwhile, or another user's
            if Path(descriptor).readlink() == gone:
                return True
    return False


def _stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may contain anything
    return None if fields[0] in "ZX" else fields


@functools.cache
def _boot_mark() -> str:
    return "@" + Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]


# -- what a killed owner has left ------------------------------------------------------------------


def workers_folder(database: Path) -> Path:
    """Return the folder in which the processes that use a database list their workers."""
    return database.with_name(database.name + ".workers")


@contextlib.contextmanager
def without_leftovers(database: Path) -> Iterator[None]:
    """Remove the folders that were made for the workers of a database that was not made."""
    folders = [workers_folder(database), *database.parents]
    missing = [folder for folder in folders if not folder.exists()]
    try:
        yield
    finally:
        if not database.exists():
            for folder in missing:
                with contextlib.suppress(OSError):  # it is not empty: another program uses it
                    folder.rmdir()


class WorkerLedger:
    """Lists process groups of this process, so that others can end them if it was killed.

    It is a file ``<pid>_<birth>_<token>.workers``, with ``leader born`` in each line.

    Raises:
        StoreUnavailable: the directory cannot be created or written.
    """

    def __init__(self, directory: Path) -> None:
        try:
            make_folder(directory)
        except OSError as error:
            raise _unavailable(directory, error) from error
        pid = os.getpid()
        self._file = directory / f"{pid}_{start_mark(pid)}_{secrets.token_hex(4)}{_SUFFIX}"
        self._groups: dict[ProcessGroup, None] = {}

    def add(self, group: ProcessGroup) -> None:
        """List a group."""
        self._groups[group] = None
        self._write()

    def remove(self, group: ProcessGroup) -> None:
        """List a group no more; one that has ended does no harm."""
        self._groups.pop(group, None)
        with contextlib.suppress(StoreUnavailable):
            self._write()

    def _write(self) -> None:
        """Replace the file atomically; remove it if it lists nothing."""
        if not self._groups:
            self._file.unlink(missing_ok=True)
            return
        draft = self._file.with_suffix(".draft")
        try:
            make_folder(draft.parent)
            with open(draft, "w", encoding="ascii", opener=opener_within) as file:
                file.writelines(f"{group.leader} {group.born}\n" for group in self._groups)
            draft.replace(self._file)
        except OSError as error:
            raise _unavailable(draft.parent, error) from error


def _unavailable(directory: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"folder {directory}: {error.strerror}; {how_to_write_there(error)}")


def reap_orphans(directory: Path) -> int:
    """Kill every listed group whose owner is dead; return how many there were.

    The groups of a live owner are not touched, nor is a process that reuses the pid of a leader.
    The call waits until they are gone, for 5 s at most.
    """
    orphans: list[int] = []
    for file in sorted(directory.glob(f"*{_SUFFIX}")):
        owner, _, rest = file.name.removesuffix(_SUFFIX).partition("_")
        if owner.isascii() and owner.isdecimal() and start_mark(int(owner)) == rest.rpartition("_")[0]:
            continue
        orphans += [group.leader for group in _listed(file) if group.kill()]
        with contextlib.suppress(OSError):  # not ours, or not a file: it lists nothing
            file.unlink(missing_ok=True)
    give_up = time.monotonic() + _GONE_WITHIN_S
    while any(group_lives(leader) for leader in orphans) and time.monotonic() < give_up:
        time.sleep(_POLL_S)
    return len(orphans)


def _listed(file: Path) -> list[ProcessGroup]:
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return []  # another process reaped it meanwhile, or it is not ours
    entries = [line.partition(" ") for line in lines]
    return [ProcessGroup(int(leader), born) for leader, _, born in entries if leader.isdigit() and born]
