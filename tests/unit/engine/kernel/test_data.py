"""Values that survive JSON, and those that do not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asterism.engine.kernel.data import MAX_BYTES, MAX_ERROR_CHARS, as_json, error_text, json_bytes, round_trip
from asterism.errors import InvalidInput

HALF = "\ud800"
"""Half a character, as the name of a file may have it."""


class Pair(msgspec.Struct):
    both: tuple[int, ...]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"in": value}
    return value


def test_a_value_is_what_json_makes_of_it() -> None:
    assert as_json({1: (2, "ü")}, "it") == {"1": [2, "ü"]}
    assert as_json(nested(100), "it") == nested(100)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (nested(101), "more than 100 lists and objects within each other"),
        (nested(100_000), "is not JSON: maximum recursion depth"),
        ({"loss": float("nan")}, "is not JSON: Out of range float values"),
        (HALF, "is not JSON: 'utf-8' codec can't encode"),
        (object(), "is not JSON: it contains an object of type object"),
        ("x" * MAX_BYTES, "has 1,048,578 bytes, and the limit is 1,048,576; write it to a file and return its path"),
    ],
)
def test_what_a_journal_would_not_give_back_is_refused_in_words(value: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        as_json(value, "it")


def test_beyond_the_bounds_a_definition_is_json_all_the_same() -> None:
    assert as_json(nested(101), "it", bounded=False) == nested(101)
    assert len(as_json("x" * MAX_BYTES, "it", bounded=False)) == MAX_BYTES


def test_a_value_of_our_own_is_copied_as_a_journal_gives_it_back() -> None:
    given = {"pair": Pair((1, 2)), "nested": [{}]}
    assert round_trip(given) == {"pair": {"both": [1, 2]}, "nested": [{}]}
    assert round_trip(given)["nested"][0] is not given["nested"][0]  # type: ignore[index]


def test_what_msgspec_does_not_know_is_made_json_by_the_hook() -> None:
    assert json_bytes({1: object()}, "it", lambda it: type(it).__name__) == b'{"1": "object"}'
    with pytest.raises(InvalidInput, match="it is not JSON: it contains an object of type object"):
        json_bytes(object(), "it")


def test_the_text_of_an_error_is_bounded() -> None:
    assert error_text(ValueError("x" * 20_000)) == "ValueError: " + "x" * (MAX_ERROR_CHARS - 12)
    assert error_text(ValueError()) == "ValueError"


def test_a_value_of_exactly_the_limit_is_accepted() -> None:
    value = "x" * (MAX_BYTES - 2)  # with its quotes
    assert as_json(value, "it") == value
