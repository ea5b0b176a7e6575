"""Where the definition of a loop is, and how it is found again by whoever resumes its run."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple, TypeVar

from asterism.devices.source import imported
from asterism.errors import InvalidInput

T = TypeVar("T")
MAX_KEPT = 64
"""Files that are kept as they were read."""


class Place(NamedTuple):
    """Where an object was made: the module, its file, and the line."""

    module: str
    file: str
    line: int


def place_of_caller(depth: int) -> Place:
    """Where the code is that called this, ``depth`` frames up."""
    frame: FrameType | None = inspect.currentframe()
    for _ in range(depth + 1):
        frame = frame.f_back if frame else None
    if frame is None:
        return Place("", "", 0)
    return Place(frame.f_globals.get("__name__", ""), frame.f_globals.get("__file__", ""), frame.f_lineno)


def written(found: object, place: Place) -> str:
    """``module:name`` of a module-level object; ``/path/file.py:name`` where its file belongs to no package, or is the program itself.

    A module of no package may have been found beside another file: its name says nothing to whoever looks elsewhere. What is not
    at module level is ``module:<line N>``, which cannot be found again.
    """
    there = vars(sys.modules[place.module]) if place.module in sys.modules else {}
    name = next((key for key, value in there.items() if value is found), "")
    if not name:
        return f"{place.module}:<line {place.line}>"
    spec = there.get("__spec__")
    module = spec.name if place.module == "__main__" and spec else place.module
    is_packaged = "." in module or not place.file
    return f"{module if is_packaged else Path(place.file).absolute()}:{name}"


def find(source: str, folder: Path) -> object:
    """Import what a source names.

    Raises:
        InvalidInput: it is malformed, missing, or does not import.
    """
    place, _, name = source.rpartition(":")
    if name.startswith("<"):
        raise InvalidInput(f"it has no name at the top of its module ({source}); give it one, or resume the run with the loop itself")
    if not place or not name.isidentifier():
        raise InvalidInput(f"{source!r}: it is written module:name or file.py:name")
    module = imported(place, folder)
    if not hasattr(module, name):
        raise InvalidInput(f"{place} has no {name}")
    return getattr(module, name)


def kept_until_changed(read: Callable[[str, Path], T]) -> Callable[[str, Path], T]:
    """Reads by name and folder, and a file again only once it has changed; what is no file is read every time."""

    @functools.lru_cache(maxsize=MAX_KEPT)
    def kept(name: str, folder: Path, _changed_ns: int) -> T:
        return read(name, folder)

    def current(name: str, folder: Path) -> T:
        try:
            changed_ns = (folder / name).stat().st_mtime_ns
        except OSError:
            return read(name, folder)
        return kept(name, folder, changed_ns)

    return current
