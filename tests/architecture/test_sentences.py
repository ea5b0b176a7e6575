"""Machines make no sentence: what they write is in journals and memories, and views word it."""

from __future__ import annotations

import ast
import inspect
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

import asterism
from asterism.app.bootstrap import FORMS
from asterism.engine.kernel.phrase import WORDINGS, Wording

SOURCE = Path(asterism.__file__).parent
PLACES = ("constellation/machine/*.py", "loop/machine/*.py", "conversation/machine/*.py", "engine/control/*.py", "engine/kernel/guards.py")
MODULES = [path for place in PLACES for path in sorted(SOURCE.glob(place))]
UNSTORED = {
    "side_effect": "names what is recorded",
    "define_machine": "names the machine for people",
    "child_start": "names the machine for the engine",
    "Skill": "names a question in an error",
    "as_json": "names a value in an error",
    "_check_end": "returns the text of an error",
}
"""Functions whose texts are in no event, effect or memory as a sentence."""
REFUSALS = ("Refused", "EditRefused")
"""Errors whose reason is in the journal."""
WORDS = re.compile(r"[a-z]{2,} +[a-z]|[a-z] +[a-z]{2,}")


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts that a module makes, but for docstrings and those of errors that end a run or are raised at the door."""
    if isinstance(node, ast.Raise) and not (isinstance(node.exc, ast.Call) and getattr(node.exc.func, "id", "") in REFUSALS):
        return
    if (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) or getattr(node, "name", "") in UNSTORED:
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


def phrases_made() -> Iterator[tuple[str, set[str]]]:
    """Yield the code of each phrase that the source makes with one, and the names of its data."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "phrase" and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value), {keyword.arg or "" for keyword in node.keywords}


def named_by(wording: Wording) -> tuple[set[str], set[str]]:
    """Return the names of data that words need, and of those that they can have."""
    if isinstance(wording, str):
        needed = {name for _, name, _, _ in string.Formatter().parse(wording) if name}
        return needed, needed
    parameters = inspect.signature(wording).parameters.values()
    return {it.name for it in parameters if it.default is it.empty and it.kind is not it.VAR_KEYWORD}, {it.name for it in parameters}


def test_each_phrase_has_words_for_the_data_that_it_is_made_with() -> None:
    made = list(phrases_made())
    assert len(made) > 150
    for code, data in made:
        needed, possible = named_by(WORDINGS[code])
        assert "" in data or needed <= data, code
        assert isinstance(WORDINGS[code], str) or "_" in possible or data - {""} <= possible, code
