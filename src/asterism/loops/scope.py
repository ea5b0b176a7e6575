"""Scopes: what the arguments of a tool must keep within."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from asterism.errors import InvalidInput

Scope = Callable[[Mapping[str, Any]], str | None]
"""Says why these arguments are out of bounds; empty or None where they are not."""


class Within(msgspec.Struct, frozen=True):
    """A scope: the arguments of these names are paths within a folder. What is not a path in plain words is not within it.

    Attributes:
        base: what a path that is not absolute is relative to for whoever opens it; empty for where this process runs.
    """

    folder: str
    names: tuple[str, ...]
    base: str = ""

    def __call__(self, arguments: Mapping[str, Any]) -> str | None:
        """Why these arguments are out of bounds, if they are."""
        for name in self.names:
            value = arguments.get(name)
            for path in value if isinstance(value, list) else [value]:
                if path is not None and not (isinstance(path, str) and _is_within(path, self.folder, self.base)):
                    return f"{name} {path!r} is not within {self.folder}"
        return None


def within(folder: str, *names: str) -> Scope:
    """A scope: the arguments of these names are paths within a folder, links followed.

    A relative path is relative to where the tool runs: this process, or the folder of its server.

    Args:
        folder: where they must be.
        names: of the arguments; each that is given is checked, and so is each item of one that is a list.

    Raises:
        InvalidInput: no argument is named.
    """
    if not names:
        raise InvalidInput(f"within {folder}: name the arguments that are paths; else nothing is checked")
    return Within(folder, names)


def scoped(scope: Scope, name: str, parameters: Mapping[str, Any], base: str = "") -> tuple[Scope]:
    """The scope of a tool that takes these parameters, and runs in ``base``."""
    if not isinstance(scope, Within):
        return (scope,)
    known = parameters.get("properties", {})
    if not any(it in known for it in scope.names):
        raise InvalidInput(f"the scope of {name} is about {', '.join(scope.names)}, and {name} takes {', '.join(known) or 'nothing'}")
    return (msgspec.structs.replace(scope, base=base),)


def _is_within(path: str, folder: str, base: str) -> bool:
    if path.startswith("~"):  # a server may take it for somebody's home
        return False
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        return (Path(base) / path).resolve().is_relative_to(Path(folder).resolve())
    return False
