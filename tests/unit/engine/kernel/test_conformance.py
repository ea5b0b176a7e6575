"""Values against the JSON Schemas of Python types: what fits here is what a worker takes without converting a text."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
import pytest

from asterism.engine.kernel.conformance import mismatch
from asterism.engine.kernel.data import FILE_SCHEMA


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Row:
    name: str
    price: float
    below: list[Row] = field(default_factory=list)


TYPES: list[Any] = [
    int,
    float,
    bool,
    str,
    None,
    bytes,
    Size,
    Literal[1, "a"],
    dt.date,
    Annotated[dt.datetime, msgspec.Meta(tz=True)],
    dt.timedelta,
    uuid.UUID,
    int | None,
    Row | int,
    Row | None,
    list[int],
    list[Row],
    tuple[int, str],
    dict[str, float],
    Annotated[int, msgspec.Meta(ge=1, lt=5)],
    Annotated[float, msgspec.Meta(gt=1, le=5)],
    Annotated[str, msgspec.Meta(min_length=2, max_length=3)],
    Annotated[list[int], msgspec.Meta(min_length=1)],
    Any,
]
VALUES: list[Any] = [
    None,
    True,
    0,
    1,
    5,
    2.5,
    1.0,
    "",
    "a",
    "s",
    "3",
    "abcd",
    "aGVsbG8=",
    "2026-11-23",
    "2026-13-01",
    "2026-11-23T07:30:00Z",
    "PT90S",
    "12345678-1234-5678-1234-567812345678",
    [],
    [1],
    [1, "a"],
    [1, 2, 3],
    ["a"],
    {},
    {"a": 1},
    {"a": "1"},
    {"name": "a", "price": 1},
    {"name": "a", "price": "1"},
    {"name": "a", "price": 1, "below": [{"name": "b", "price": 2.5}]},
    {"name": "a", "price": 1, "below": [{"name": "b"}]},
    [{"name": "a", "price": 1}],
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_value_fits_exactly_if_it_can_be_decoded_as_the_type_of_the_schema(kind: Any) -> None:
    schema = msgspec.json.schema(kind)
    for value in VALUES:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            fits = False
        else:
            fits = True
        assert (mismatch(value, schema) is None) == fits, (value, schema, mismatch(value, schema))


@pytest.mark.parametrize(
    ("value", "kind", "told"),
    [
        ("3", int, ("", "integer, not str")),
        ("x", int | None, ("", "integer or null, not str")),
        (5, Size, ("", '"l" or "s", not 5')),
        ([1, 2.5], list[int], ("[1]", "integer, not float")),
        ([{"name": "a", "price": 1, "below": [{"name": 2, "price": 1}]}], list[Row], ("[0].below[0].name", "string, not int")),
        ({"name": "a"}, Row | None, ("", "an object with name, price, below; price is missing")),
        ("2026-1-1", dt.date, ("", 'date such as 2026-11-23, not "2026-1-1"')),
        (0, Annotated[int, msgspec.Meta(ge=1)], ("", "at least 1, not 0")),
        ("abcd", Annotated[str, msgspec.Meta(max_length=3)], ("", "at most 3 characters, not 4")),
        ([1, "a", 2], tuple[int, str], ("", "at most 2 items, not 3")),
        ("x" * 100, Literal["a"], ("", f'"a", not "{"x" * 59}…')),
    ],
)
def test_a_mismatch_says_where_and_what_is_wanted(value: Any, kind: Any, told: tuple[str, str]) -> None:
    assert mismatch(value, msgspec.json.schema(kind)) == told


def test_a_number_is_a_decimal_too() -> None:
    schema = msgspec.json.schema(decimal.Decimal)
    assert [mismatch(value, schema) for value in ("1.5", 1.5)] == [None, None]
    assert mismatch("much", schema) == ("", 'decimal such as 10.95, not "much"')


def test_a_file_is_wanted_where_the_schema_says_so_and_may_stand_for_a_path() -> None:
    file = {"$file": f"sha256:{'0' * 64}"}
    assert mismatch(file, FILE_SCHEMA) is None
    assert mismatch(file, {"type": "string", "format": "path"}) is None
    assert mismatch(file, {"type": "string"}) == ("", "string, not dict")
    assert mismatch({"name": "a"}, FILE_SCHEMA) == ("", "a file, not dict")


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {"type": "object", "properties": 3},
        {"minimum": "a"},
        {"anyOf": 3},
        {"$ref": "https://example.org/schema"},
        {"$defs": {"A": {"allOf": [{"$ref": "#/$defs/B"}] * 10}, "B": {"allOf": [{"$ref": "#/$defs/A"}] * 10}}, "$ref": "#/$defs/A"},
        {"type": "unknown"},
        {"pattern": "("},
    ],
)
def test_a_schema_of_a_server_that_is_malformed_endless_or_elsewhere_refuses_nothing(schema: dict[str, Any]) -> None:
    for value in (1, "a", {"a": 1}, [1]):
        assert mismatch(value, schema) is None


DOUBLING = {f"l{level}": {"allOf": 2 * [{"$ref": f"#/$defs/l{level + 1}"}]} for level in range(60)} | {"l60": {"type": "object"}}
TREE = {"allOf": 2 * [{"properties": {"n": {"$ref": "#/$defs/tree"}}}]}
DEEP: Any = {}
for _ in range(60):
    DEEP = {"n": DEEP}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$defs": DOUBLING, "$ref": "#/$defs/l0"}, {}),
        ({"$defs": {"tree": TREE}, "$ref": "#/$defs/tree"}, DEEP),
        ({"items": {"anyOf": 5000 * [{}]}}, [0] * 5000),
        ({"items": {"enum": [*range(5000)]}}, [0] * 100_000),
        ({"anyOf": [*({"enum": [number]} for number in range(5000)), {}]}, "x" * 1_000_000),
        ({"$ref": "#"}, {}),
        ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, {}),
        ({"uniqueItems": True}, [{"n": number} for number in range(20_000)]),
        ({"items": {"type": "integer"}}, [1] * 50_000),
        ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {"a" * 40 + "!": 1}),
    ],
)
def test_a_schema_that_could_take_for_ever_is_checked_in_bounded_time_and_refuses_nothing(schema: dict[str, Any], value: Any) -> None:
    assert mismatch(value, schema) is None


@pytest.mark.parametrize("place", ["$defs", "definitions"])
def test_a_reference_is_followed_to_a_definition_or_to_the_schema_itself(place: str) -> None:
    schema = {place: {"n": {"type": "integer"}}, "properties": {"n": {"$ref": f"#/{place}/n"}, "below": {"$ref": "#"}}}
    assert mismatch({"below": {"n": 1}}, schema) is None
    assert mismatch({"below": {"n": "x"}}, schema) == (".below.n", "integer, not str")
