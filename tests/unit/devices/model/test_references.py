from __future__ import annotations

from typing import Any

import pytest

from asterism.devices.model.references import MissingReference, references, resolve
from asterism.engine.kernel.phrase import phrase

RESULTS: dict[str, Any] = {"a": {"path": "/x", "n": 3, "deep": {"list": [10, {"k": "v"}]}, "none": None}, "b-1": [1, 2], "c": "text"}


def filled(value: Any) -> Any:
    def result_of(task_id: str, path: str) -> Any:
        if task_id not in RESULTS:
            raise MissingReference(phrase("ended_without_result", task=task_id))
        return RESULTS[task_id]

    return resolve(value, result_of)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${a.n}", 3),
        ("${a}", RESULTS["a"]),
        ("${a.deep.list.1.k}", "v"),
        ("${b-1.0}", 1),
        ("${a.none}", None),
        ("${c}", "text"),
        ("n is ${a.n}, path ${a.path}", "n is 3, path /x"),
        ("${a.n}${a.n}", "33"),
        ("all: ${b-1}; ${a.none}", "all: [1, 2]; null"),
        ({"x": ["${a.n}", {"y": "${c}!"}], "z": 1}, {"x": [3, {"y": "text!"}], "z": 1}),
        ("no reference: $a, ${}, ${ a }, {a}", "no reference: $a, ${}, ${ a }, {a}"),
        (7, 7),
        (None, None),
    ],
)
def test_a_reference_becomes_the_value(value: Any, expected: Any) -> None:
    assert filled(value) == expected


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("${a.missing}", r"\$\{a.missing\}: the result of a has no 'missing'"),
        ("x ${a.deep.nothing}", "has no 'nothing'"),
        ("${b-1.2}", "has no '2'"),
        ("${b-1.-1}", "has no '-1'"),
        ("${b-1.one}", "has no 'one'"),
        ("${c.field}", "has no 'field'"),
        ("${a.none.field}", "has no 'field'"),
        (["${gone.x}"], "gone ended without a result"),
    ],
)
def test_a_reference_to_what_is_not_there_is_missing(value: Any, told: str) -> None:
    with pytest.raises(MissingReference, match=told):
        filled(value)


def test_references_are_listed_in_order() -> None:
    value = {"x": ["${a.b.c} and ${b}", {"y": "${c.0}"}], "z": "${a}", "n": 1}
    assert list(references(value)) == [("a", ("b", "c")), ("b", ()), ("c", ("0",)), ("a", ())]


def test_a_value_that_was_filled_in_is_not_looked_at_again() -> None:
    assert resolve("${a} ${b}", lambda task_id, _: "${b}" if task_id == "a" else "end") == "${b} end"
