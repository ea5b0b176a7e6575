"""The page that maps earlier names to today's: every name of today on it exists."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "names.md").read_text(encoding="utf-8")
CODE, PLANNED = PAGE.split("\n## Names that earlier design notes use", 1)

ROW = re.compile(r"^\| `[^`]+` \| `(?P<name>[^`]+)` \| (?:`(?P<on_disk>\w+)`)? ?\| `(?P<module>[a-z_.]+)` \|$", re.MULTILINE)
ROWS = [pytest.param(row["name"], row["on_disk"], row["module"], id=row["name"]) for row in ROW.finditer(CODE)]
MODULES = re.findall(r"`([a-z_.]+)`(?= \|$|, or)", CODE.split("\n## Modules\n", 1)[1], re.MULTILINE)
EXISTING = re.findall(r"(?:, )?`(\w+(?:\.\w+)?)`[^|`]*\(exists?: `([a-z_.]+)`\)", PLANNED)


def has_member(kind: Any, name: str) -> bool:
    """Report if a class has a member of this name, or if its code sets such an attribute of `self`."""
    if hasattr(kind, name) or any(name in vars(base).get("__annotations__", {}) for base in kind.__mro__):
        return True
    return any(f"self.{name}" in inspect.getsource(base) for base in kind.__mro__ if base.__module__.startswith("asterism"))


def resolve(module: ModuleType, name: str) -> Any:
    """Return the object that a dotted name, perhaps with a parameter in parentheses, stands for.

    Raises:
        AssertionError: there is no such name.
    """
    dotted, _, parameter = name.rstrip(")").partition("(")
    found: Any = module
    for part in dotted.split("."):
        assert has_member(found, part) if isinstance(found, type) else hasattr(found, part), f"{module.__name__} has no {name}"
        found = getattr(found, part, None)
    if parameter:
        assert parameter in inspect.signature(found).parameters
    return found


@pytest.mark.parametrize(("name", "on_disk", "module"), ROWS)
def test_a_new_name_exists_and_is_written_to_journals_as_the_page_says(name: str, on_disk: str | None, module: str) -> None:
    home = importlib.import_module(f"asterism.{module}")
    found = resolve(home, name)
    if on_disk is None:
        return
    kind, _, field = name.partition(".")
    if field:
        assert {it.name: it.encode_name for it in msgspec.structs.fields(getattr(home, kind))}[field] == on_disk
    else:
        assert found.__struct_config__.tag == on_disk


@pytest.mark.parametrize("module", MODULES)
def test_a_new_module_exists(module: str) -> None:
    importlib.import_module(f"asterism.{module}")


@pytest.mark.parametrize(("name", "module"), EXISTING)
def test_a_planned_name_that_is_said_to_exist_exists(name: str, module: str) -> None:
    resolve(importlib.import_module(f"asterism.{module}"), name)


def test_the_rows_of_the_page_are_read() -> None:
    listed = CODE.split("\n## Names in the code\n", 1)[1].split("\n## Modules\n", 1)[0]
    assert len(ROWS) == sum(line.startswith("| `") for line in listed.splitlines()) > 300
    assert len(MODULES) > 30
    assert EXISTING
