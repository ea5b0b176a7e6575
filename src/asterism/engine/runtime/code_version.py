"""A fingerprint of the code that advances the runs of a machine; snapshots depend on it."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from asterism.engine.control.common_rows import RunControl
from asterism.engine.kernel.machine import Machine, Row

_OURS = "asterism."
_KERNEL = ("asterism.engine.kernel.run", "asterism.engine.control.common_rows")
"""Modules that advance the runs of every machine; with what they import, they are the kernel."""
_NOT_OWN = frozenset({"msgspec", *sys.stdlib_module_names})
_INSTALLED = frozenset({"site-packages", "dist-packages"})
MAX_SOURCES = 1000
"""Source files of one machine; no snapshots are taken of the runs of a machine that has more."""


@functools.cache
def code_version(machine: Machine[Any]) -> str:
    """Return a fingerprint of the code that advances the runs of a machine; empty if it is unknown.

    It is unknown if a module has no file, as in an interactive session.

    It covers the kernel, and the modules of the machine's states, moves, events, effects and memory
    with what they import: of Asterism, all folders of these; of others, the modules in their own
    folder or below it. After a change the whole journal is replayed.
    """
    sources = sources_of(machine)
    return hashlib.sha256(b"".join(source.read_bytes() for source in sorted(sources))).hexdigest()[:16] if sources else ""


def sources_of(machine: Machine[Any]) -> set[Path] | None:
    """Return the source files that ``code_version`` covers; None if one is missing, or there are too many."""
    found: set[Path] = set()
    todo = {name: sys.modules.get(name) for name in (*_modules(machine), *_KERNEL)}
    seen = set(todo)
    while todo:
        name, module = todo.popitem()
        if name.partition(".")[0] in _NOT_OWN:
            continue
        source = Path(getattr(module, "__file__", None) or "")
        if module is None or not source.is_file() or len(found) >= MAX_SOURCES:
            return None
        is_ours = name.startswith(_OURS)
        found.update(source.parent.glob("*.py") if is_ours else [source])
        near = {
            it.__name__: it
            for it in _imported(module)
            if it.__name__ not in seen and (it.__name__.startswith(_OURS) if is_ours else _is_below(it, source.parent))
        }
        seen.update(near)
        todo.update(near)
    return found


def _modules(machine: Machine[Any]) -> Iterator[str]:
    kinds = (machine.states, *machine.events, *machine.effects, *type(machine.memory()).__mro__)
    yield from (kind.__module__ for kind in kinds if kind is not object)
    todo: list[Any] = [entry.move for rows in machine.table.values() for entry in rows.values()]
    seen: set[int] = set()
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        match part:
            case functools.partial():
                todo.append(part.func)
            case Row():
                todo.append(part.move)
            case RunControl():
                todo += [getattr(part, field.name) for field in fields(part)]
            case _ if callable(part):
                yield getattr(part, "__module__", "") or type(part).__module__
                todo += [cell.cell_contents for cell in getattr(part, "__closure__", None) or ()]


def _imported(module: ModuleType) -> Iterator[ModuleType]:
    for value in tuple(vars(module).values()):
        found = value if isinstance(value, ModuleType) else sys.modules.get(str(getattr(value, "__module__", "")))
        if found is not None:
            yield found


def _is_below(module: ModuleType, folder: Path) -> bool:
    """Return True if a module lies in a folder and was not installed there."""
    source = Path(getattr(module, "__file__", None) or "/")
    return folder.name not in _INSTALLED and source.is_relative_to(folder) and _INSTALLED.isdisjoint(source.relative_to(folder).parts)
