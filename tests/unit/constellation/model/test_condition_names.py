from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.nesting import check_plan
from asterism.engine.kernel.profile import AgentProfile, Skill

OUTPUT = {"type": "object", "properties": {"rows": {}}}
FLEET = {
    "d": AgentProfile(
        device_id="d",
        skills=(
            Skill(name="load", description="returns any object"),
            Skill(name="count", description="returns rows", output=OUTPUT),
            Skill(name="use", description="uses it", parameters={"properties": {"x": {}}}),
        ),
    )
}


def check(condition: str, source: str = "load", *, params: Any = None, when: str = "", **more: Any) -> None:
    tasks = [
        {"task_id": "a", "device": "d", "skill": source, **more},
        {"task_id": "b", "device": "d", "skill": "use", "inputs": {"x": 1}, **({"when": when} if when else {})},
    ]
    line = {"from": "a", "to": "b", **({"condition": condition} if condition else {})}
    check_plan(parse_plan({"tasks": tasks, "dependencies": [line], "params": params or {}}), FLEET)


@pytest.mark.parametrize(
    ("condition", "source", "params"),
    [
        ("anything > 3 && nested.field == 1", "load", {}),
        ("result.params.x > 3 && result.bytes > 2", "load", {}),
        ("params > 3 && inputs > 3 && a == 1", "load", {}),  # fields of a result without a declared form
        ("rows > params.least", "count", {"least": "int"}),
        ('rows > params["the-least"]', "count", {"the-least": "int"}),
        ('name == "params.x" // params.y', "load", {"least": "int"}),
        ("type(rows) == int", "count", {}),
        ('tasks["a"].result.rows > 3', "count", {}),
    ],
)
def test_names_that_a_condition_can_use_are_accepted(condition: str, source: str, params: Any) -> None:
    check(condition, source, params=params)


@pytest.mark.parametrize(
    ("condition", "source", "params", "why"),
    [
        (
            "result.rows > params.least",
            "load",
            {},
            "asks for 'params'; there is result, status, tasks; the plan has no parameters, and a field of that name is result.params",
        ),
        ("rows > params.least", "count", {}, "there is rows, result, status, tasks; the plan has no parameters"),
        ("rows > params.lest", "count", {"least": "int"}, "asks for params.lest; did you mean least?"),
        ("rows > params.x", "count", {"least": "int"}, "asks for params.x; there is least"),
        ("row > 3", "count", {"least": "int"}, "asks for 'row'; there is rows, result, status, tasks, params; did you mean rows?"),
        ("inputs.x > 3", "load", {}, "declare params to use a value there, and a field of that name is result.inputs"),
        ("a.rows > 3", "load", {}, "the result of a is named result"),
        ("b.rows > 3", "load", {}, 'the result of b is named tasks["b"].result'),
        ("bytes > 3", "load", {}, "bytes is a type in conditions; a field of that name is result.bytes"),
        ('string == "a"', "load", {}, "string is a type in conditions"),
    ],
)
def test_a_name_that_a_condition_does_not_have_is_refused_with_those_it_has(condition: str, source: str, params: Any, why: str) -> None:
    with pytest.raises(EditRefused) as refused:
        check(condition, source, params=params)
    assert str(refused.value).startswith("dependency a->b: ")
    assert why in str(refused.value)


def test_the_result_of_a_task_with_items_has_no_fields() -> None:
    with pytest.raises(EditRefused, match=r"asks for 'rows'; there is result, status, tasks$"):
        check("rows > 3", "count", for_each=[1, 2])


def test_the_parameters_that_when_uses_are_checked() -> None:
    check("", when="x > params.least", params={"least": "int"})
    with pytest.raises(EditRefused, match=r"task b\.when: 'x > params\.lest' asks for params\.lest; did you mean least\?"):
        check("", when="x > params.lest", params={"least": "int"})
