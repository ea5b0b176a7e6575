"""The package root: public names, resolved lazily."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import asterism


@pytest.mark.parametrize("name", sorted(asterism._HOME_OF))
def test_a_public_name_resolves_to_the_object_in_its_home(name: str) -> None:
    assert getattr(asterism, name) is getattr(sys.modules[asterism._HOME_OF[name]], name)


def test_type_checkers_see_the_same_names_and_modules() -> None:
    tree = ast.parse(Path(asterism.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == asterism._HOME_OF


def test_a_name_that_is_not_public_is_rejected_with_those_that_are() -> None:
    with pytest.raises(AttributeError, match=r"no public name 'skil'; it has .*skill"):
        asterism.skil  # noqa: B018  # looking it up is the test


def test_importing_skill_loads_neither_other_devices_nor_anything_above() -> None:
    script = "import sys; from asterism import skill; print(*(name for name in sys.modules if name.startswith('asterism.')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    below = ("asterism.constellation", "asterism.errors", "asterism.kernel")
    assert {name for name in loaded if not name.startswith(below)} == {"asterism.devices", "asterism.devices.skill"}
