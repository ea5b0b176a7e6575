"""Scopes: limits on the arguments of a tool."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from asterism.errors import InvalidInput

Scope = Callable[[Mapping[str, Any]], str | None]
"""Function that returns why arguments are out of bounds; empty or None if they are within."""


class Within(msgspec.Struct, frozen=True):
    """A scope: the named arguments must be plain paths within a folder.

    Attributes:
        base: folder of relative paths, as the tool resolves them; empty for the process's own.
    """

    folder: str
    names: tuple[str, ...]
    base: str = ""

    def __call__(self, arguments: Mapping[str, Any]) -> str | None:
        """Return why these arguments are out of bounds; None if they are within."""
        for name in self.names:
            value = arguments.get(name)
            for path in value if isinstance(value, list) else [value]:
                if path is not None and not (isinstance(path, str) and _is_within(path, self.folder, self.base)):
                    return f"{name} {path!r} is not within {self.folder}"
        return None


def within(folder: str, *names: str) -> Scope:
    """Return a scope that requires the named arguments to be paths within a folder, links followed.

    A relative path is relative to the working folder of the tool: this process, or its server.

    Args:
        folder: the folder that must contain them.
        names: names of the arguments; each item of a list is checked.

    Raises:
        InvalidInput: no argument is named.
    """
    if not names:
        raise InvalidInput(f"within {folder}: name the arguments that hold paths; without names nothing is checked")
    return Within(folder, names)


def scoped(scope: Scope, name: str, parameters: Mapping[str, Any], base: str = "") -> tuple[Scope]:
    """Return the scope of a tool with these parameters that runs in ``base``.

    Raises:
        InvalidInput: the tool has none of the scope's arguments.
    """
    if not isinstance(scope, Within):
        return (scope,)
    known = parameters.get("properties", {})
    if not any(it in known for it in scope.names):
        raise InvalidInput(f"the scope of {name} names {', '.join(scope.names)}, but {name} takes {', '.join(known) or 'nothing'}")
    return (msgspec.structs.replace(scope, base=base),)


def _is_within(path: str, folder: str, base: str) -> bool:
    if path.startswith("~"):  # a server may expand it to a home folder
        return False
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        return (Path(base) / path).resolve().is_relative_to(Path(folder).resolve())
    return False
