"""Pages and code speak the words of the field: no private word, and each page is of one kind."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [path for pattern in ("*.md", "docs/**/*.md", "examples/*/*.md", "benchmarks/*.md") for path in sorted(ROOT.glob(pattern))]
WRITTEN_BY_HAND = [page for page in PAGES if page.parent.name != "benchmarks"]
EXEMPT = {"docs/names.md", "docs/machines.md"}
"""The page whose subject is the old words, and the one that repeats docstrings of `src`."""

PRIVATE_WORDS = {
    "told": r"\bt(?:old|ells?|elling|eller)\b",
    "kept": r"\bkept\b",
    "anew": r"\banew\b",
    "aloud": r"\baloud\b",
    "whoever": r"\bwho(?:m|so)?ever\b",
    "thereof": r"\bthere(?:of|in|by|to)\b",
    "robbed": r"\brob(?:bed|bery|beries|ber|bers|s)\b",
    "letter": r"\bletters?\b(?!, digits| \(A-Z)",
    "mail": r"\bmail(?:box|man|s)?\b|\bpostm[ae]n\b",
    "seat": r"\bseats?\b",
    "desk": r"\bdesks?\b",
    "crew": r"\bcrews?\b",
    "nursery": r"\bnurser(?:y|ies)\b",
    "vault": r"\bvaults?\b",
    "hush": r"\bhush\b",
    "doomed": r"\bdoom(?:s|ed)?\b",
    "unjudged": r"\bunjudged\b|\bjudg(?:e|es|ed|ing)\b",
    "restless": r"\brestless\b|\bstirs?\b|\bstirred\b",
    "resting": r"\brests\b|\bresting\b|\brested\b",
    "thaw": r"\bthaw(?:s|ed|ing)?\b|\bfrozen\b(?!=)|\bfreez(?:e|es|er|ing)\b",
    "comes to nothing": r"\bcom(?:e|es|ing) to nothing\b|\bcame to nothing\b|\bcame of\b|\bcomes of\b",
    "let go": r"\blet(?:s|ting)? go\b",
    "called off": r"\bcall(?:s|ed|ing)? (?:\w+ )?off\b",
    "put off": r"\bput(?:s|ting)? off\b",
    "taken up": r"\bt(?:ake|akes|aken|aking|ook) (?:it |them )?up\b",
    "take in": r"\btake(?:n)? in\b|\btook in\b",
    "not taken": r"\bnot taken\b",
    "lived": r"\blived\b|\blives\b(?! in\b)|\blives it again\b",
    "at hand": r"\bat hand\b",
    "beside": r"\bbesides\b",
    "drained": r"\bdrained\b",
    "claim": r"\bclaim(?:s|ed|ing)?\b",
    "withdrawn": r"\bwithdraw(?:n|s|al|als|ing)?\b",
    "chronicle": r"\bchronicles?\b",
    "thrown away": r"\bthrown? away\b",
}
"""Words of this project's own, by pattern; the glossary has the words of the field."""

ALLOWED_IN_SOURCE = {
    "told": 11,
    "kept": 2,
    "anew": 3,
    "whoever": 1,
    "mail": 1,
    "desk": 2,
    "vault": 24,
    "unjudged": 1,
    "thaw": 10,
    "taken up": 1,
    "take in": 1,
    "not taken": 1,
    "lived": 3,
    "claim": 5,
    "withdrawn": 5,
}
"""How many lines of `src` may still have the word. Lower a figure when you remove some; it must never rise."""

NO_PROSE = (
    re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL),
    re.compile(r"^(?: {4}|\t).*$", re.MULTILINE),
    re.compile(r"(`+).+?\1", re.DOTALL),
    re.compile(r"\]\([^)]*\)"),
)
"""Blocks of code, output, code within a line, and addresses of links."""
KINDS = ("Tutorial", "Guide", "Reference", "Concept", "Results")


def prose_of(page: str) -> str:
    """Return the page without code, output and addresses of links, with all of its lines."""
    blank = re.compile(r"[^\n]")
    for pattern in NO_PROSE:
        page = pattern.sub(lambda match: blank.sub(" ", match[0]), page)
    return page


def lines_with(pattern: str, lines: Iterable[str]) -> list[str]:
    found = re.compile(pattern, re.IGNORECASE)
    return [f"{number}: {line.strip()[:100]}" for number, line in enumerate(lines, 1) if found.search(line)]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if str(page.relative_to(ROOT)) not in EXEMPT], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_has_no_private_word(page: Path) -> None:
    lines = prose_of(page.read_text(encoding="utf-8")).split("\n")
    found = {word: lines_with(pattern, lines) for word, pattern in PRIVATE_WORDS.items()}
    assert {word: where for word, where in found.items() if where} == {}


def test_the_source_has_no_more_private_words_than_before() -> None:
    lines = [line for path in sorted((ROOT / "src").rglob("*.py")) for line in path.read_text(encoding="utf-8").split("\n")]
    found = {word: len(lines_with(pattern, lines)) for word, pattern in PRIVATE_WORDS.items()}
    assert {word: count for word, count in found.items() if count > ALLOWED_IN_SOURCE.get(word, 0)} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_its_kind_in_its_first_line(page: Path) -> None:
    first = page.read_text(encoding="utf-8").split("\n\n", 2)[1]
    assert re.match(rf"\*({'|'.join(KINDS)})[.:]", first)


@pytest.mark.parametrize("page", WRITTEN_BY_HAND, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_prose_of_a_page_wraps_at_100_characters(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").split("\n")
    prose = zip(lines, prose_of("\n".join(lines)).split("\n"), strict=True)
    assert [line for line, words in prose if words.strip() and len(line) > 100 and not line.startswith(("|", "#"))] == []


def test_code_is_no_prose() -> None:
    assert prose_of("a `told` b\n\n    told\n\n```text\ntold\n```\n[told](told.md)").count("told") == 1
