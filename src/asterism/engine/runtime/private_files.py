"""Files and folders that only their user may read: they contain the inputs and results of runs.

Existing ones keep their mode. To share a database, change the modes of its file and of its folders.
"""

from __future__ import annotations

import os
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, for their user only.

    Raises:
        OSError: the folder cannot be made.
    """
    missing = [it for it in (folder, *folder.parents) if not it.is_dir()]
    for it in reversed(missing):
        try:
            it.mkdir(mode=0o700)
        except FileExistsError:
            if not it.is_dir():  # else another process made it first
                raise


def sync(path: Path) -> None:
    """Wait until the disk has a file, or the entries of a folder. Blocks.

    Raises:
        OSError: it cannot be opened or written.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def opener(path: str, flags: int) -> int:
    """Open a file, as the ``opener`` of ``open``; a new one is for its user only."""
    return os.open(path, flags, 0o600)


def opener_within(path: str, flags: int) -> int:
    """Open a file, as the ``opener`` of ``open``; a new one has the permissions of its folder."""
    return os.open(path, flags, Path(path).parent.stat().st_mode & 0o666)
