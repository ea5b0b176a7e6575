"""The corpus as a test: nothing is silently wrong, and most of what a person understands is understood."""

from __future__ import annotations

import collections

import pytest

from tests.talk.corpus import FOLDER, Outcome, run

LEAST_UNDERSTOOD = 0.85


@pytest.fixture(scope="module")
def outcomes() -> list[tuple[str, Outcome]]:
    return run(sorted(FOLDER.glob("*.txt")))


def test_the_corpus_has_many_phrases_and_none_twice(outcomes: list[tuple[str, Outcome]]) -> None:
    assert len(outcomes) >= 600
    counts = collections.Counter((language, it.line.section, it.line.phrase) for language, it in outcomes)
    assert max(counts.values()) == 1


def test_nothing_is_silently_wrong(outcomes: list[tuple[str, Outcome]]) -> None:
    assert [(language, *it.line, it.got) for language, it in outcomes if it.kind == "wrong"] == []


@pytest.mark.parametrize("language", ["de", "en", "es"])
def test_most_of_what_a_person_understands_is_understood(outcomes: list[tuple[str, Outcome]], language: str) -> None:
    clear = [it for code, it in outcomes if code == language and it.line.expected not in ("ask", "nothing")]
    assert sum(it.kind in ("understood", "confirmed") for it in clear) >= LEAST_UNDERSTOOD * len(clear)


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6, 7, 8])
def test_nothing_of_a_later_round_is_silently_wrong(number: int) -> None:
    """A round is written afresh, and read for the first time when the grammars are finished."""
    heard = run(sorted(FOLDER.with_name("rounds").glob(f"round{number}_*.txt")))
    assert len(heard) >= 200
    assert [(language, *it.line, it.got) for language, it in heard if it.kind == "wrong"] == []


def test_nothing_of_the_traps_is_silently_wrong_or_fills_another_field() -> None:
    """Fractions, dashes, ordinals and the like; a phrase that a person would ask about gives no value of another field either."""
    heard = run(sorted(FOLDER.with_name("traps").glob("*.txt")))
    assert len(heard) >= 100
    assert [(language, *it.line, it.got) for language, it in heard if it.kind == "wrong" or (it.line.expected == "ask" and it.extra)] == []
