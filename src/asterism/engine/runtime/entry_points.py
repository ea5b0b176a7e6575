"""Parts of installed packages, found by their entry points; a package is imported when a part of it is named."""

from __future__ import annotations

from typing import TypeVar

from asterism.engine.kernel.data import error_text
from asterism.errors import InvalidInput

T = TypeVar("T")


def names_of(group: str) -> list[str]:
    """Return the names that installed packages give their parts of a group; nothing is imported."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - delays the start of every command by 10 ms

    return sorted(entry_points(group=group).names)


def part_of(group: str, name: str, to: type[T], what: str) -> T:
    """Import a part of an installed package.

    Args:
        group: group of the entry points.
        name: name of the entry point.
        to: the type that the part has.
        what: the word for it in errors.

    Raises:
        KeyError: no package has it.
        InvalidInput: several packages have it, or it cannot be imported, or is of another type.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - as above

    points = entry_points(group=group, name=name)
    if not points:
        raise KeyError(name)
    values = sorted(point.value for point in points)
    if len(values) > 1:
        raise InvalidInput(f"{len(values)} installed packages have the {what} {name!r}: {', '.join(values)}; remove one")
    try:
        part = next(iter(points)).load()
    except Exception as error:  # boundary: the import of another package may raise anything
        raise InvalidInput(f"the {what} {name!r} of an installed package, {values[0]}, does not import: {error_text(error)}") from error
    if not isinstance(part, to):
        raise InvalidInput(f"the {what} {name!r} of an installed package, {values[0]}, is no {to.__name__} but a {type(part).__name__}")
    return part
