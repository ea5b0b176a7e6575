"""Values from words: what is no one plain number is not guessed at, and no message takes long to read."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from decimal import Decimal
from typing import Any

import pytest

from asterism.flows.parsing import parse


@pytest.mark.parametrize(
    "said",
    [
        "1,5", "0,5", "1.000,50", "1,5 or 2", "two hundred", "five thousand", "5 thousand", "2 million", "thirty two", "thirty-two",
        "two dozen", "point five", "2 and a half", "minus five", "minus 5", "not 5", "1e5", "5k", "5-7", "", "nine lives or 3",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [int, float, Decimal])
def test_an_ambiguous_number_is_rejected(kind: Any, said: str) -> None:
    with pytest.raises(ValueError, match=r"digits|one number|cannot find|the message is empty"):
        parse(kind, said, 0)


@pytest.mark.parametrize(
    ("said", "number"),
    [("5", 5), ("five", 5), ("for 1,000 people", 1000), ("-5", -5),
     ("\u22125", -5), ("$1,000,000.00", 10**6), ("4, please", 4), ("yes,5", 5),
     ("\u0663", 3), ("twenty", 20), ("5.", 5), ("5,", 5), ("there are 5 of us.", 5)],
)  # fmt: skip
def test_one_plain_number_is_accepted(said: str, number: int) -> None:
    assert parse(int, said, 0) == number


@pytest.mark.parametrize("kind", [int, float, Decimal])
def test_a_number_with_too_many_digits_is_rejected(kind: Any) -> None:
    with pytest.raises(ValueError, match="too long"):
        parse(kind, "1" + "0" * 400, 0)


@pytest.mark.parametrize("kind", [int, float, dt.date, dt.time, dt.datetime, list[str], list[int], bool])
@pytest.mark.parametrize("part", ["1,", "5 ", " ", "7 pm ", "and ", "in 5 "])
def test_parsing_a_hostile_message_is_fast(kind: Any, part: str) -> None:
    began = time.process_time()
    with contextlib.suppress(ValueError):
        parse(kind, "a" + part * 5000 + "b", 0)
    assert time.process_time() - began < 0.5
