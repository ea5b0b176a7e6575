"""The glossary maps each word to where it lives: this follows every map, and looks that no word is missing."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
BUILT, NOT_BUILT = PAGE.split("## Not built yet")

HOME = re.compile(r"`([a-z_.]+:[A-Za-z_.]+)`")
ROWS = [line for line in BUILT.splitlines() if line.startswith("| ") and not line.startswith("| word")]
FIRST_CELL = re.compile(r"^\| `?([A-Za-z_]+)`? \|", re.MULTILINE)

PUBLIC_WORDS = re.findall(
    r"\w+",
    """
    TaskConstellation TaskStar TaskStarLine ConstellationAgent ConstellationAgentStatus WeavingMode AgentProfile
    ContextNames ConstellationProcessorContext ConstellationAgentProcessor ConstellationAgentResponse
    ProcessingPhase ProcessingResult depends_on provides ConstellationStrategyFactory ConstellationPrompterFactory
    State TRANSITIONS StandardAgent InputField flowagent AgentStatus STATE_TRANSITIONS make_result transition_to can_transition
    run journal effect inquiry lease attempt
    """,
)
"""The vocabulary the project has promised to use."""


def words_of(section: str) -> set[str]:
    return set(FIRST_CELL.findall(section)) - {"word"}


def names_defined(text: str) -> Iterator[str]:
    """Classes, functions, methods, and names assigned in a module or in a class."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        for statement in node.body if isinstance(node, ast.Module | ast.ClassDef) else ():
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


@pytest.mark.parametrize("home", [home for row in ROWS for home in HOME.findall(row)])
def test_a_mapped_word_lives_where_the_glossary_says(home: str) -> None:
    module, _, path = home.partition(":")
    found: object = importlib.import_module(f"asterism.{module}")
    for name in path.split("."):
        found = getattr(found, name)


def test_every_built_word_is_mapped() -> None:
    assert [row for row in ROWS if not HOME.search(row)] == []


@pytest.mark.parametrize("word", PUBLIC_WORDS)
def test_a_promised_word_is_in_the_glossary_once(word: str) -> None:
    assert (word in words_of(BUILT)) + (word in words_of(NOT_BUILT)) == 1


def test_a_word_that_is_not_built_yet_is_not_there() -> None:
    missing = words_of(NOT_BUILT)
    sources = sorted((ROOT / "src").rglob("*.py"))
    built = {name: str(path.relative_to(ROOT)) for path in sources for name in names_defined(path.read_text(encoding="utf-8"))}
    assert {word: built[word] for word in missing if word in built} == {}, "it has a home now: give it one in the glossary"


def test_this_finds_definitions() -> None:
    assert set(names_defined("A = 1\nclass B:\n    c: int = 0\n    def d(self): pass\n")) == {"A", "B", "c", "d"}
