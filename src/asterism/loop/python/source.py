"""Find the name of a loop's definition, and import the definition to resume a run."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from asterism.devices.skills.source import imported
from asterism.errors import InvalidInput, did_you_mean

T = TypeVar("T")
MAX_CACHED = 64
"""Maximum files whose content is cached."""


class Place(NamedTuple):
    """The module, file and line that created an object."""

    module: str
    file: str
    line: int


def place_of_caller() -> Place:
    """Return the place that called the function which asks."""
    frame = sys._getframe(2)  # noqa: SLF001 - documented; inspect has no shorter way
    return Place(frame.f_globals.get("__name__", ""), frame.f_globals.get("__file__", ""), frame.f_lineno)


def definition_name(found: object, place: Place) -> str:
    """Return the name under which ``find`` imports a module-level object.

    It is ``module:name``, or ``/path/file.py:name`` if the file belongs to no package or is the
    main program: a module without a package may have been found next to another file, and its name
    is then unknown elsewhere. An object that is not at module level is ``module:<line N>``, which
    cannot be imported.
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
    """Import the object that a source names.

    Raises:
        InvalidInput: the source is malformed or missing, or its import fails.
    """
    place, _, name = source.rpartition(":")
    if name.startswith("<"):
        raise InvalidInput(f"it has no name at module level ({source}); give it one, or resume the run with the loop object")
    if not place or not name.isidentifier():
        raise InvalidInput(f"{source!r}: write module:name or file.py:name")
    module = imported(place, folder)
    if not hasattr(module, name):
        raise InvalidInput(f"{place} has no {name}{did_you_mean(name, vars(module))}")
    return getattr(module, name)


def cached_until_changed(read: Callable[[str, Path], T]) -> Callable[[str, Path], T]:
    """Cache ``read(name, folder)`` by the file's modification time; do not cache other sources."""

    @functools.lru_cache(maxsize=MAX_CACHED)
    def cached(name: str, folder: Path, _changed_ns: int) -> T:
        return read(name, folder)

    def current(name: str, folder: Path) -> T:
        try:
            changed_ns = (folder / name).stat().st_mtime_ns
        except OSError:
            return read(name, folder)
        return cached(name, folder, changed_ns)

    return current
