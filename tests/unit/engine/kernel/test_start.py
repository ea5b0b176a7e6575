"""What a run is asked to begin with when another run starts it."""

from __future__ import annotations

import msgspec
import pytest

from asterism.engine.kernel.start import StartRequest
from asterism.errors import InvalidInput


class Defined(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


def test_a_definition_is_read_as_the_type_that_its_machine_gives_it() -> None:
    assert StartRequest(definition={"name": "x"}).defined_as(Defined) == Defined("x")


@pytest.mark.parametrize(
    ("definition", "why"),
    [({}, "missing required field `name`"), ({"name": 5}, "Expected `str`, got `int`"), ({"name": "x", "nam": 1}, "unknown field `nam`")],
)
def test_an_invalid_definition_is_refused_in_words(definition: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^a run cannot be started: its definition is not a valid Defined: [^\n]*{why}"):
        StartRequest(definition=definition).defined_as(Defined)


@pytest.mark.parametrize(
    ("budget_s", "own_s", "limit_s"), [(None, 7.0, 7.0), (None, 100.0, 100.0), (5.0, 7.0, 5.0), (9.0, 7.0, 7.0), (200.0, 100.0, 200.0)]
)
def test_a_run_has_the_least_of_its_own_limit_and_its_budget_and_a_default_shortens_no_budget(
    budget_s: float | None, own_s: float, limit_s: float
) -> None:
    assert StartRequest(definition={}, budget_s=budget_s).limit_s(own_s, default_s=100.0) == limit_s


def test_a_request_that_a_journal_gives_back_is_the_same() -> None:
    start = StartRequest(definition={"name": "x"}, request="do it", inputs={"a": [1, None]}, budget_s=2.5, fleet_file="/f.toml")
    assert msgspec.json.decode(msgspec.json.encode(start), type=StartRequest) == start
