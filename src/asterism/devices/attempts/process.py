"""The identity of a process: its pid with its start time, because pids are reused."""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import subprocess
import sys
from pathlib import Path

_PROC = Path("/proc")
_PS_TIMEOUT_S = 5.0
_GROUP_FIELD = 2  # of /proc/<pid>/stat, counted after the name: state, parent, group, …
_START_FIELD = 19


def start_mark(pid: int) -> str | None:
    """Return the start of a process as a word to compare; None if there is none, or a zombie."""
    if sys.platform != "linux":
        return _birth_by_ps(pid)
    fields = _stat(pid)
    return None if fields is None else f"{fields[_START_FIELD]}{_boot_mark()}"


def group_lives(group: int) -> bool:
    """Return True if a process of the group still runs; zombies do not count."""
    if sys.platform != "linux":
        return any(line.split()[0] == str(group) for line in _ps("-A", "-o", "pgid=,stat=") if " Z" not in line)
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return any(fields is not None and fields[_GROUP_FIELD] == str(group) for fields in map(_stat, pids))


def group_still_runs(leader: int, born: str) -> bool:
    """Return True if a process of that leader's group still runs, even without the leader.

    No process gets the number of a group that still exists, so the number means the same group
    until the next boot.
    """
    found = start_mark(leader)
    return found == born or (found is None and born.endswith(_boot_mark()) and group_lives(leader))


def is_deleted_but_open(path: str) -> bool:
    """Return True if a process has a deleted file of that path open.

    Only Linux knows, and only of processes that this user may inspect.
    """
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
    return "@" + Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8] if sys.platform == "linux" else ""


def _birth_by_ps(pid: int) -> str | None:
    lines = _ps("-o", "stat=,lstart=", "-p", str(pid))
    state, _, start = lines[0].strip().partition(" ") if lines else ("Z", "", "")
    return None if state.startswith("Z") else "-".join(start.split())


def _ps(*arguments: str) -> list[str]:
    done = subprocess.run(["ps", *arguments], capture_output=True, text=True, check=False, timeout=_PS_TIMEOUT_S)  # noqa: S603, S607
    return done.stdout.splitlines()
