"""The ledger lists the workers of a process, so that others can end them if it was killed.

One file per owner, ``<pid>_<birth>_<token>.workers``, one ``pid birth`` per line.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from asterism.devices.attempts.process import group_lives, group_still_runs, start_mark
from asterism.engine.runtime.private_files import make_folder, opener_within
from asterism.errors import StoreUnavailable, how_to_write_there

_SUFFIX = ".workers"
_GONE_WITHIN_S = 5.0
_POLL_S = 0.01


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
    """The workers of one pool of this process.

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

    def write(self, workers: Iterable[tuple[int, str]]) -> None:
        """Replace the list by these (pid, birth); remove the file if there are none.

        The replacement is atomic.
        """
        listed = "".join(f"{pid} {born}\n" for pid, born in workers)
        if not listed:
            self._file.unlink(missing_ok=True)
            return
        draft = self._file.with_suffix(".draft")
        try:
            make_folder(draft.parent)
            with open(draft, "w", encoding="ascii", opener=opener_within) as file:
                file.write(listed)
            draft.replace(self._file)
        except OSError as error:
            raise _unavailable(draft.parent, error) from error


def _unavailable(directory: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"folder {directory}: {error.strerror}; {how_to_write_there(error)}")


def reap_orphans(directory: Path) -> int:
    """Kill every worker whose owner is dead, with its process group; return how many there were.

    The workers of a live owner are not touched, nor is a process that reuses the pid of a worker.
    The call waits until they are gone, for 5 s at most.
    """
    orphans: list[int] = []
    for file in sorted(directory.glob(f"*{_SUFFIX}")):
        owner, _, rest = file.name.removesuffix(_SUFFIX).partition("_")
        if owner.isascii() and owner.isdecimal() and start_mark(int(owner)) == rest.rpartition("_")[0]:
            continue
        for pid, born in _listed(file):
            if group_still_runs(pid, born):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                    orphans.append(pid)
        with contextlib.suppress(OSError):  # not ours, or not a file: it lists no worker
            file.unlink(missing_ok=True)
    _wait_until_gone(orphans)
    return len(orphans)


def _listed(file: Path) -> list[tuple[int, str]]:
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return []  # another process reaped it meanwhile, or it is not ours
    entries = [line.partition(" ") for line in lines]
    return [(int(pid), born) for pid, _, born in entries if pid.isdigit() and born]


def _wait_until_gone(groups: list[int]) -> None:
    give_up = time.monotonic() + _GONE_WITHIN_S
    while any(group_lives(group) for group in groups) and time.monotonic() < give_up:
        time.sleep(_POLL_S)
