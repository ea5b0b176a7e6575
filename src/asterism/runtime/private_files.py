"""Files and folders that only their user may read: what runs are given, and what they come to, is in them.

What is there already keeps its mode. So who wants to share a database changes the modes of its file and of the folders beside it.
"""

from __future__ import annotations

import os
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their user only.

    Raises:
        OSError: it cannot be made.
    """
    missing = [it for it in (folder, *folder.parents) if not it.is_dir()]
    for it in reversed(missing):
        try:
            it.mkdir(mode=0o700)
        except FileExistsError:
            if not it.is_dir():  # else another process was faster
                raise


def opener(path: str, flags: int) -> int:
    """Open a file, as the ``opener`` of ``open``; a new one is for its user only."""
    return os.open(path, flags, 0o600)


def opener_within(path: str, flags: int) -> int:
    """Open a file, as the ``opener`` of ``open``; a new one may be read and written by those who may its folder."""
    return os.open(path, flags, Path(path).parent.stat().st_mode & 0o666)
