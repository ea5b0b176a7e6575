"""Requests in words: nothing is placed wrongly, most are placed, and each refusal leads to a request that works.

``chatty.yaml`` has long sentences of talk, which only a model can plan: none of its 26 placeable requests is placed.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest

from asterism.words.planner.planner import plan_offline
from asterism.words.planner.rephrasing import _one_slip
from tests.words.corpus import FOLDER, Request, check, fleet_of, read

REQUESTS = read(FOLDER / "requests.yaml")
TRAPS = [*read(FOLDER / "traps.yaml"), *read(FOLDER / "chatty.yaml")]


def by_words(request: Request) -> str:
    return request.request[:80]


@pytest.mark.parametrize("request_", REQUESTS + TRAPS, ids=by_words)
def test_a_request_is_never_placed_wrongly_and_a_refusal_gives_one_that_can_be_planned(request_: Request) -> None:
    result = check(request_)
    assert result.outcome != "wrong", result.text
    if result.outcome == "placed":
        return
    if "only says what not to do" in result.text:
        assert not result.advice
    else:
        assert result.advice in result.text
        assert plan_offline(result.advice, fleet_of(request_.fleet))["tasks"]


def test_most_placeable_requests_are_placed() -> None:
    counts = Counter(check(request).outcome for request in REQUESTS)
    assert counts["placed"] >= 33, counts


def test_only_a_missing_doubled_or_swapped_letter_is_corrected() -> None:
    assert all(_one_slip(slip, "download") for slip in ("dowload", "donwload", "downnload", "downloda"))
    assert not any(_one_slip(other, "train") for other in ("trail", "trains", "brain", "drain", "train"))
    assert sum(_one_slip("".join(order), "abc") for order in permutations("abc")) == 2
