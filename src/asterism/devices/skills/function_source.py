"""The sources of functions: how a plan and a journal name a Python function.

- ``jobs/nightly.py:download``: a function at module level of a file.
- ``jobs/lib.reports:publish``: the same in a package, with the folder that holds the package.
- ``acme.reports:publish``: the same in an installed package.
- ``<nightly>:main.<locals>.shout``: a function that only its own process has: one of a notebook, a
  lambda, a function within a function.

A relative path counts from the folder of the plan file or Python file that it stands in; in a
journal, from the working directory of the run.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

_LIBRARY = Path(os.__file__).parent
_INSTALLED = frozenset({"site-packages", "dist-packages"})


def source_of(function: Callable[..., Any]) -> str:
    """Return the source of a function, with an absolute path.

    It names a file or a module only if an import of it finds this very function under its name: not
    another one that the file defines later, and not one that a function has made.
    """
    module, name = sys.modules.get(function.__module__), function.__qualname__
    is_global = module is not None and name.isidentifier() and vars(module).get(name) is function
    place = _place(module) if module and is_global and not _is_defined_later(function, module) else ""
    if place:
        return f"{place}:{name}"
    line = f"@{function.__code__.co_firstlineno}" if function.__name__ == "<lambda>" else ""
    return f"<{function.__module__}>:{function.__qualname__}{line}"


def is_importable(source: str) -> bool:
    """Return False for the source of a function that only its own process has."""
    return not source.startswith("<")


def rebase(source: str, old: Path, new: Path | None = None) -> str:
    """Return a source that is relative to one folder as relative to another one.

    Without another one, and outside of it, the source is absolute.
    """
    place, _, name = source.rpartition(":")
    is_path = "/" in place or place.endswith(".py")
    if not is_importable(source) or not (is_path or _is_in(old, place)):
        return source
    path = os.path.normpath(old / place)
    folder = os.path.normpath(new).rstrip("/") + "/" if new else ""
    return f"{path.removeprefix(folder)}:{name}"


def _is_in(folder: Path, module: str) -> bool:
    top = module.partition(".")[0]
    return (folder / top).is_dir() or (folder / f"{top}.py").is_file()


def _is_defined_later(function: Callable[..., Any], module: ModuleType) -> bool:
    """Return True if a file that is still being executed defines the name of its function again, further down."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    try:
        file = Path(getattr(module, "__file__", None) or "").read_bytes()  # a notebook and `python -c` have none
        if file.count(f"def {function.__name__}".encode()) < 2 or code is None or code.co_filename != module.__file__:  # noqa: PLR2004 - defined again
            return False
        found = [
            it for it in ast.parse(file).body if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef) and it.name == function.__name__
        ]
    except (OSError, SyntaxError, ValueError):
        return False
    return any(min([it.lineno, *(wrapper.lineno for wrapper in it.decorator_list)]) > code.co_firstlineno for it in found)


def _place(module: ModuleType) -> str:
    """Return the file or the module from which other processes import a module; empty if they cannot."""
    spec = getattr(module, "__spec__", None)
    name = spec.name if module.__name__ == "__main__" and spec else module.__name__
    if (file := getattr(module, "__file__", None)) is None:
        return name if spec and name != "__main__" else ""
    path = Path(file).absolute()
    if not path.is_file() or "/" in name:  # a file whose plain name was in use has its path as its name
        return str(path) if path.is_file() else ""
    parts = name.split(".")
    root = path.parents[len(parts) - (path.stem != "__init__")]
    is_at_its_name = root.joinpath(*parts).with_suffix(".py") == path or root.joinpath(*parts, "__init__.py") == path
    if is_at_its_name and (root.is_relative_to(_LIBRARY) or not _INSTALLED.isdisjoint(root.parts)):
        return name
    if is_at_its_name and ("." in name or path.stem == "__init__"):
        return f"{root}/{name}"
    return str(path) if path.suffix == ".py" else ""
