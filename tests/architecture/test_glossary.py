"""The glossary maps each word to its home: every home exists, no promised word is missing, and no word has two meanings."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")

HOME = re.compile(r"`([a-z0-9_.]+:[A-Za-z0-9_.]+)`")
WORDS = PAGE.split("\n## Constellations\n", 1)[1]
"""The page without the table of other systems' terms."""
ROWS = [line for line in WORDS.splitlines() if line.startswith("| ") and not line.startswith("| word")]
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


@pytest.mark.parametrize("home", [home for row in ROWS for home in HOME.findall(row)])
def test_a_mapped_word_lives_where_the_glossary_says(home: str) -> None:
    module, _, path = home.partition(":")
    found: object = importlib.import_module(f"asterism.{module}")
    for name in path.split("."):
        found = getattr(found, name)


def test_every_word_is_mapped() -> None:
    assert [row for row in ROWS if not HOME.search(row)] == []


def test_no_word_stands_in_two_rows() -> None:
    words = [re.sub(r"\(.*\)|`", "", row.split("|")[1]).strip() for row in ROWS]
    assert [word for word in words if words.count(word) > 1] == []


def test_every_term_that_is_mapped_to_another_systems_is_in_the_glossary() -> None:
    table = PAGE.split("\n## Terms of other systems\n", 1)[1].split("\n## ", 1)[0]
    mapped = re.findall(r"^\| ([a-z][^|(]*?)(?: \(.*?\))? \|", table, re.MULTILINE)[1:]
    words = {row.split("|")[1].strip(" `") for row in ROWS} | {"constellation", "task", "dependency"}  # their classes have rows
    assert [term for entry in mapped for term in entry.split(", ") if term not in words] == []


@pytest.mark.parametrize("word", PUBLIC_WORDS)
def test_a_promised_word_is_in_the_glossary(word: str) -> None:
    assert word in FIRST_CELL.findall(PAGE)
