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

_ROOT = Path(__file__).parents[1]
_NOT_OWN = frozenset({"asterism", "msgspec", *sys.stdlib_module_names})
_INSTALLED = frozenset({"site-packages", "dist-packages"})
MAX_SOURCES = 1000
"""Source files of one machine; no snapshots are taken of the runs of a machine that has more."""


@functools.cache
def code_version(machine: Machine[Any]) -> str:
    """Return a fingerprint of the code that advances the runs of a machine; empty if it is unknown.

    It is unknown if a module has no file, as in an interactive session.

    It covers ``kernel``, ``language``, ``constellation`` and ``machines``; for a program's own
    machine also the modules of its states, moves, events, effects and memory, and the modules that
    these import from their own folder or below it. After a change the whole journal is replayed.
    """
    sources = _own_sources(machine)
    if sources is None:
        return ""
    return hashlib.sha256(b"".join((_core(), *(source.read_bytes() for source in sorted(sources))))).hexdigest()[:16]


@functools.cache
def _core() -> bytes:
    """Return a digest of the packages that advance the runs of every machine."""
    sources = sorted(
        source for package in ("kernel", "language", "constellation", "machines") for source in (_ROOT / package).rglob("*.py")
    )
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).digest()


def _own_sources(machine: Machine[Any]) -> set[Path] | None:
    """Return a machine's source files outside of asterism; None if one is missing, or too many."""
    found: set[Path] = set()
    todo = {name: sys.modules.get(name) for name in _modules(machine)}
    seen = set(todo)
    while todo:
        name, module = todo.popitem()
        if name.partition(".")[0] in _NOT_OWN:
            continue
        source = Path(getattr(module, "__file__", None) or "")
        if module is None or not source.is_file() or len(found) >= MAX_SOURCES:
            return None
        found.add(source)
        near = {it.__name__: it for it in _imported(module) if it.__name__ not in seen and _is_below(it, source.parent)}
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
