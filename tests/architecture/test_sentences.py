"""Machines make no sentence: what they write is in journals and memories, and views word it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import asterism
from asterism.app.bootstrap import FORMS

ROOMS = ("constellation",)
SOURCE = Path(asterism.__file__).parent
MODULES = [path for room in ROOMS for path in sorted((SOURCE / room / "machine").glob("*.py"))]
UNSTORED = {
    "side_effect": "names what is recorded",
    "define_machine": "names the machine for people",
    "child_start": "names the machine for the engine",
    "Skill": "names a question in an error",
}
"""Functions whose texts are in no event, effect or memory as a sentence."""
WORDS = re.compile(r"[a-z]{2,} +[a-z]|[a-z] +[a-z]{2,}")


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts that a module makes, but for those of errors, which are raised at the door, and docstrings."""
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return
    if isinstance(node, ast.Call) and (name := getattr(node.func, "attr", getattr(node.func, "id", ""))) in UNSTORED:
        for part in node.args[1:] if name == "side_effect" else ():
            yield from texts(part)
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    for child in ast.iter_child_nodes(node):
        yield from texts(child)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.parent.name}.{path.stem}")
def test_a_machine_makes_no_sentence(path: Path) -> None:
    made = [(line, text) for line, text in texts(ast.parse(path.read_text())) if WORDS.search(text) and text not in FORMS]
    found = [f"line {line}: {text!r}" for line, text in made]
    assert not found, f"{path.name}: make a phrase of {', '.join(found)}"
