"""Parameters of a plan: declared, filled, converted, and refused with what was meant."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.model.documents import as_file, parse_plan
from asterism.constellation.model.parameters import Param, missing_of, parse_params, value_of_text, values_of
from asterism.errors import InvalidInput

PARAMS = parse_params({"url": "str", "keep": {"type": "int", "default": 7, "description": "backups"}, "rate": {"type": "float"}})


def test_values_are_converted_and_defaults_fill_the_rest() -> None:
    assert values_of(PARAMS, {"url": "u", "rate": 1}) == {"url": "u", "keep": 7, "rate": 1.0}
    assert missing_of(PARAMS, {"url": "u"}) == ["rate"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"url": "u"}, r"^the plan needs rate \(float\)$"),
        ({}, r"^the plan needs url \(str\), rate \(float\)$"),
        ({"ulr": "u"}, r"^the plan has no parameter 'ulr'; did you mean url\?$"),
        ({"zzz": "u"}, r"^the plan has no parameter 'zzz'; it has url, keep, rate$"),
        ({"url": 1, "rate": 1.0}, r"^params\.url: it is str, not int$"),
        ({"url": "u", "rate": 1.0, "keep": True}, r"^params\.keep: it is int, not bool$"),
        ({"url": "u", "rate": 1.0, "keep": 1.5}, r"^params\.keep: it is int, not float$"),
    ],
)
def test_a_value_that_does_not_fit_is_named(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        values_of(PARAMS, given)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [("str", "3", "3"), ("int", "3", 3), ("float", "3", 3.0), ("bool", "true", True), ("list", "[1]", [1]), ("dict", '{"a": 1}', {"a": 1})],
)
def test_a_text_is_read_by_the_type(kind: Any, text: str, value: Any) -> None:
    assert value_of_text("x", Param(type=kind), text) == value


def test_a_value_that_is_not_json_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^params\.x: nan is not a JSON number$"):
        values_of({"x": Param(type="float")}, {"x": float("nan")})


def test_a_text_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^params\.x: it is int, not str$"):
        value_of_text("x", Param(type="int"), "three")


@pytest.mark.parametrize(
    ("params", "why"),
    [
        (["url"], r"^plan\.params: expected an object of names and types, got list$"),
        ({"a b": "str"}, r"^plan\.params: 'a b' is no name of a parameter"),
        (
            {"url": "text"},
            r"^plan\.params\.url: Invalid enum value 'text'.*; a parameter has type \(str, int, float, .*, file\)",
        ),
        ({"url": {"type": "int", "default": "x"}}, r"^plan\.params\.url\.default: it is int, not str$"),
        ({"url": {"typ": "int"}}, r"^plan\.params\.url: Object contains unknown field `typ`"),
    ],
)
def test_an_invalid_declaration_is_refused_with_the_plan(params: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse_plan({"tasks": [{"task_id": "a"}], "params": params})


def test_a_plan_with_parameters_and_handlers_is_the_same_when_written_as_a_file() -> None:
    plan = parse_plan({
        "name": "nightly",
        "params": {"url": "str", "keep": {"type": "int", "default": 7}, "note": {"default": ""}},
        "tasks": [{"task_id": "a", "when": "x > 1", "join": "any"}, {"task_id": "b"}],
        "dependencies": [{"from": "a", "to": "b"}],
        "on_failure": {"alert": {"name": "notify"}},
        "finally": [{"task_id": "clean"}],
    })  # fmt: skip
    written = as_file(plan)
    assert [task["task_id"] for task in written["tasks"]] == ["a", "b"]
    assert (written["on_failure"], written["finally"]) == ([{"task_id": "alert", "name": "notify"}], [{"task_id": "clean"}])
    assert parse_plan(written) == plan
