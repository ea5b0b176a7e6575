"""Sources of skills, by which a fleet file, a plan and a journal name a Python function.

- ``jobs/nightly.py:download``: a function at module level of a file.
- ``jobs/lib.reports:publish``: the same in a package, with the folder that holds the package.
- ``acme.reports:publish``: the same in an installed package.
- ``<nightly>:main.<locals>.shout``: a function that only its own process has: one of a notebook, a
  lambda, a function within a function.

A relative path counts from the folder of the plan file or Python file that it stands in; in a
journal, from the working directory of the run.

This module imports user code: skills only inside workers, definitions of loops in the process that
drives them.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from asterism.devices.skills.skill import is_skill
from asterism.errors import InvalidInput

_MESSAGE_CHARS = 2000
_LIBRARY = str(Path(os.__file__).parent) + os.sep
_LIBRARY_FOLDER = Path(os.__file__).parent
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_USER_FOLDERS: set[str] = set()
"""Folders that were added to ``sys.path``; the latest comes first among them."""
MAX_WORKER_DEPTH = 4
"""Levels of device workers within each other, from which on a function opens no runtime."""
DEPTH_VARIABLE = "ASTERISM_WORKER_DEPTH"
"""Variable of a worker's environment with its level."""
_importing: list[str] = []
"""The files and modules of the user that are being imported, by any thread: an import may start threads."""
_refused: set[str] = set()
"""Those of them that have tried to start a run, also if they have caught the error."""
_STARTS_A_RUN = 'it starts a run when it is imported; put that code under `if __name__ == "__main__":`'


def module_part(source: str) -> str:
    """Return the file or module of a source, without its function."""
    return source.rpartition(":")[0]


def refuse_during_import() -> None:
    """Refuse to open a runtime in a module that is being imported for its functions.

    Raises:
        InvalidInput: a module is being imported; it would start its run again in every process that performs its tasks.
    """
    if _importing:
        _refused.update(_importing)
        raise InvalidInput(_STARTS_A_RUN)
    if worker_depth() >= MAX_WORKER_DEPTH:
        raise InvalidInput(
            f"a function starts a run with functions that start a run, {MAX_WORKER_DEPTH} levels deep; is one started on import?"
        )


def worker_depth() -> int:
    """Return how many device workers this process runs within; 0 for a program that a person has started."""
    depth = os.environ.get(DEPTH_VARIABLE, "")
    return int(depth) if depth.isdecimal() else 0


def load(source: str, folder: Path, *, plain: bool = False) -> Callable[..., Any]:
    """Import the module of a source and find its skill.

    Args:
        source: the source.
        folder: base of relative sources.
        plain: accept a function without ``@skill``.

    Raises:
        InvalidInput: the source is malformed, missing, does not import, or is not a skill.
    """
    place, _, name = source.rpartition(":")
    if not place or not name.isidentifier():
        raise InvalidInput("not the name of a skill; write file.py:function or package.module:function")
    module = imported(place, folder)
    found = getattr(module, name, None)
    if found is None:
        skills = sorted(key for key, value in vars(module).items() if is_skill(value))
        raise InvalidInput(f"{place} has no function {name}; its skills are: {', '.join(skills) or 'none'}")
    if not callable(found) or isinstance(found, type):
        raise InvalidInput(f"{name} of {place} is not a function but a {type(found).__name__}")
    if not plain and not is_skill(found):
        raise InvalidInput(f"{name} of {place} is not a skill; add @skill (from asterism import skill) above it")
    return found  # type: ignore[no-any-return]


def error_with_line(error: BaseException, hide: Callable[[str], str] = str) -> str:
    """Return ``TypeName: text (file:line)``, with the last line of user code in its traceback.

    ``hide`` masks secrets in the text, before it is cut.
    """
    text = hide(f"{type(error).__name__}: {error}") if str(error) else type(error).__name__
    text = text if len(text) <= _MESSAGE_CHARS else text[:_MESSAGE_CHARS] + "…"
    frames = traceback.extract_tb(error.__traceback__)
    line = line_of(error) or (_line(frames[-1]) if frames else "")
    if isinstance(error, SyntaxError) or not line:
        return text  # a SyntaxError names its own file and line
    return f"{text} ({line})"


def trace_of(error: BaseException) -> str:
    """Return the whole traceback of an error, from the first line of user code on."""
    frames = list(traceback.walk_tb(error.__traceback__))
    ours = next((place for place, (frame, _) in enumerate(frames) if _is_user_code(frame.f_code.co_filename)), 0)
    start = error.__traceback__
    for _ in range(ours):
        start = start.tb_next if start else None
    return "".join(traceback.format_exception(type(error), error, start))


def line_of(error: BaseException) -> str:
    """Return ``file:line``, the last line of user code in a traceback; empty if there is none."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user_code(frame.filename)]
    return _line(ours[-1]) if ours else ""


def _line(frame: traceback.FrameSummary) -> str:
    return f"{Path(frame.filename).name}:{frame.lineno}"


def _is_user_code(filename: str) -> bool:
    return not filename.startswith((_LIBRARY, _PACKAGE, "<")) and f"{os.sep}site-packages{os.sep}" not in filename


def imported(place: str, folder: Path) -> ModuleType:
    """Import a module by its name, or by its file in a folder, and return it.

    Raises:
        InvalidInput: there is none, or its import fails.
    """
    path = Path(os.path.realpath(folder / place)) if place.endswith(".py") else None
    if path and not path.is_file():
        raise InvalidInput(f"there is no file {place}")
    base, _, module = place.rpartition("/")
    _add_to_path(path.parent if path else folder / base)
    _importing.append(place)
    try:
        found = _import_file(path) if path else importlib.import_module(module)
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {error}") from error
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise InvalidInput(f"{place} does not import: {error_with_line(error)}") from error
        why = f"{type(error).__name__}: {error}; name a file (folder/file.py), or a module that is installed"
        raise InvalidInput(f"{place} does not import: {why}") from None
    except (Exception, SystemExit) as error:  # boundary: the import of user code may raise anything
        raise InvalidInput(f"{place} does not import: {error_with_line(error)}") from error
    finally:
        _importing.remove(place)
    if place in _refused:
        raise InvalidInput(f"{place}: {_STARTS_A_RUN}")
    return found


def _import_file(path: Path) -> ModuleType:
    for module in _loaded(path):
        if module is not None and getattr(module, "__file__", None) == str(path):
            return module
    # Pickle and multiprocessing find a module under its plain name; if that is in use, its path
    # becomes the name.
    name = str(path) if _is_taken(path) else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:  # boundary: user code; the next import must not find half a module
        del sys.modules[name]
        raise
    return module


def _loaded(path: Path) -> Iterator[ModuleType | None]:
    """Return the loaded modules, those with a name of this file first: a process that was just forked copies each that it looks at."""
    yield from map(sys.modules.get, (path.stem, str(path)))
    yield from tuple(sys.modules.values())


def _is_taken(path: Path) -> bool:
    """Return whether the plain name of a file means another module: one that is imported, or that an import would find."""
    if path.stem in sys.modules or path.stem in sys.stdlib_module_names or "." in path.stem:
        return True
    try:
        found = importlib.util.find_spec(path.stem)
    except (ImportError, ValueError):
        return True  # a program's own module finder raised an error for it: it has no use as a name
    return found is not None and os.path.realpath(found.origin or "") != str(path)


def _add_to_path(folder: Path) -> None:
    """Let user code import its neighbors: after what is installed, which a neighbor of the same name must not replace."""
    if str(folder) not in sys.path:
        first = next((place for place, entry in enumerate(sys.path) if entry in _USER_FOLDERS), len(sys.path))
        sys.path.insert(first, str(folder))
        _USER_FOLDERS.add(str(folder))


# -- naming a function ------------------------------------------------------------------------------


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
    if is_at_its_name and (root.is_relative_to(_LIBRARY_FOLDER) or not _INSTALLED.isdisjoint(root.parts)):
        return name
    if is_at_its_name and ("." in name or path.stem == "__init__"):
        return f"{root}/{name}"
    return str(path) if path.suffix == ".py" else ""
