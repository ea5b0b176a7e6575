from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from asterism.constellation.model.documents import LineSpec, as_file, parse_line, parse_plan, parse_task
from asterism.constellation.model.line import DependencyType
from asterism.constellation.model.task import RetryPolicy, TaskSpec
from asterism.engine.kernel.data import MAX_DEPTH
from asterism.errors import InvalidInput
from tests.support.constellations import plan, seed


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# -- what is accepted --------------------------------------------------------------------------------


def test_the_seeds_creation_reply_is_a_plan_verbatim() -> None:
    found = parse_plan(seed("creation"))
    assert [(task.task_id, task.name, task.device) for task in found.tasks] == [
        ("task_001", "download_mnist", "laptop"),
        ("task_002", "train_cnn", "gpu_server"),
        ("task_003", "evaluate", "test_server"),
        ("task_004", "deploy", "prod_server"),
    ]
    assert [(line.line_id, line.dependency_type, line.condition) for line in found.dependencies] == [
        ("task_001->task_002", "SUCCESS_ONLY", ""),
        ("task_002->task_003", "SUCCESS_ONLY", ""),
        ("task_003->task_004", "CONDITIONAL", "accuracy > 0.95"),
    ]


def test_a_task_has_every_field() -> None:
    given = {
        "task_id": "a",
        "name": "n",
        "description": "what",
        "device": "d",
        "skill": "s",
        "tips": ["one", "two"],
        "inputs": {"x": [1, {"y": None}], "z": "${b.path}"},
        "priority": -3,
        "timeout_s": 1.5,
        "deadline_s": 60,
        "retry": {"max_attempts": 3, "backoff_s": 0.5, "max_backoff_s": 9, "on": ["timeout", "device_lost"]},
        "requires_approval": True,
        "env": {"MODE": "fast"},
        "folder": "data",
    }
    assert parse_task(given) == TaskSpec(
        task_id="a",
        name="n",
        description="what",
        device="d",
        skill="s",
        tips=("one", "two"),
        inputs={"x": [1, {"y": None}], "z": "${b.path}"},
        priority=-3,
        timeout_s=1.5,
        deadline_s=60.0,
        retry=RetryPolicy(max_attempts=3, backoff_s=0.5, max_backoff_s=9.0, on=("timeout", "device_lost")),
        requires_approval=True,
        env={"MODE": "fast"},
        folder="data",
    )


def test_tips_may_be_one_text() -> None:
    assert parse_task({"task_id": "a", "tips": "mind the gap"}).tips == ("mind the gap",)
    assert parse_task({"task_id": "a", "tips": ""}).tips == ()


@pytest.mark.parametrize(
    "given",
    [
        {"id": "x", "from": "a", "to": "b", "type": "CONDITIONAL", "condition": "ok"},
        {"dependency_id": "x", "from_task_id": "a", "to_task_id": "b", "dependency_type": "CONDITIONAL", "condition": "ok"},
        {"line_id": "x", "from": "a", "to": "b", "condition": "ok"},
    ],
)
def test_a_dependency_may_be_spelled_in_the_documented_ways(given: dict[str, Any]) -> None:
    found = parse_line(given)
    assert (found.line_id, found.source, found.target, found.dependency_type, found.condition) == ("x", "a", "b", "CONDITIONAL", "ok")


def test_a_dependency_has_defaults() -> None:
    found = parse_line({"from": "a", "to": "b"})
    assert (found.line_id, found.dependency_type) == ("a->b", DependencyType.SUCCESS_ONLY)
    assert parse_line({"from": "a", "to": "b", "condition": "ok"}).dependency_type is DependencyType.CONDITIONAL
    assert parse_line({"from": "a", "to": "b", "type": "UNCONDITIONAL"}) == LineSpec(
        source="a", target="b", type=DependencyType.UNCONDITIONAL
    )


def test_tasks_and_dependencies_may_be_objects_by_id() -> None:
    by_id = {
        "tasks": {"a": {"device": "d"}, "b": {"device": "d", "task_id": "b"}},
        "dependencies": {"first": {"from": "a", "to": "b"}},
    }
    found = parse_plan(by_id)
    assert [task.task_id for task in found.tasks] == ["a", "b"]
    assert [line.line_id for line in found.dependencies] == ["first"]


def test_a_plan_may_name_itself_and_have_no_dependencies() -> None:
    found = parse_plan({"constellation_id": "c", "name": "n", "tasks": [{"task_id": "a"}]})
    assert (found.constellation_id, found.name, found.dependencies) == ("c", "n", ())
    assert parse_plan({"tasks": [{"task_id": "a"}], "dependencies": None}).dependencies == ()


# -- what is refused, with its place -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"colour": "red"}, r"plan.tasks\[0\]: Object contains unknown field `colour`; its fields are task_id, name, description"),
        ({"c\nd": "red"}, r"plan.tasks\[0\]: Object contains unknown field `c d`; its fields are task_id"),
        ({"timeout_s": "soon"}, r"plan.tasks\[0\].timeout_s: Expected `float \| null`, got `str`"),
        ({"timeout_s": 0}, r"plan.tasks\[0\].timeout_s: Expected `float` > 0"),
        ({"timeout_s": float("nan")}, r"plan.tasks\[0\].timeout_s: Expected `float` > 0"),
        ({"deadline_s": float("inf")}, r"plan.tasks\[0\].deadline_s: Expected `float` <= "),
        ({"deadline_s": -1}, r"plan.tasks\[0\].deadline_s: Expected `float` > 0"),
        ({"priority": 1.5}, r"plan.tasks\[0\].priority: Expected `int`"),
        ({"priority": 2**40}, r"plan.tasks\[0\].priority: Expected `int` <= "),
        ({"requires_approval": "yes"}, r"plan.tasks\[0\].requires_approval: Expected `bool`"),
        ({"inputs": [1]}, r"plan.tasks\[0\].inputs: Expected `object`"),
        (
            {"inputs": {"x": {"when": dt.date(2026, 1, 1)}}},
            r"plan.tasks\[0\].inputs: .*is date, which JSON does not have; put it in quotes",
        ),
        ({"inputs": {"x": float("nan")}}, r"plan.tasks\[0\].inputs: nan is not a JSON number"),
        ({"inputs": {"x": {1: 2}}}, r"plan.tasks\[0\].inputs: the name 1 is not text"),
        ({"inputs": {"x": nested(MAX_DEPTH)}}, rf"plan.tasks\[0\].inputs: more than {MAX_DEPTH} lists and objects"),
        ({"inputs": {"x": nested(5000)}}, r"plan.tasks\[0\]"),
        ({"inputs": {"x": {1, 2}}}, r"plan.tasks\[0\]"),
        ({"name": "half \ud83d"}, r"plan.tasks\[0\]: half a character"),
        ({"retry": {"max_attempts": 0}}, r"plan.tasks\[0\].retry.max_attempts: Expected `int` >= 1"),
        ({"retry": {"backoff_s": -1}}, r"plan.tasks\[0\].retry.backoff_s: Expected `float` >= 0"),
        ({"retry": {"times": 3}}, r"plan.tasks\[0\].retry: Object contains unknown field `times`"),
        ({"retry": {"on": ["sunday"]}}, r"plan.tasks\[0\].retry.on\[0\]: Invalid enum value 'sunday'"),
        ({"status": "COMPLETED"}, r"plan.tasks\[0\]: Object contains unknown field `status`"),
        ({"task_id": 5}, r"plan.tasks\[0\].task_id: Expected `str`"),
        ({"task_id": ""}, r"plan.tasks\[0\].task_id: '' is not usable"),
        ({"task_id": "a b"}, r"plan.tasks\[0\].task_id: 'a b' is not usable"),
        ({"task_id": "a" * 65}, r"is not usable; letters, digits, _ and -, 64 at most"),
        ({"task_id": "a->b"}, r"is not usable"),
    ],
)
def test_an_invalid_task_is_reported_by_place(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        parse_plan({"tasks": [{"task_id": "a", "device": "d", **changed}]})


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"from": "a"}, r"plan.dependencies\[0\]: Object missing required field `to`"),
        ({"from": "a", "to": "b", "type": "MAYBE"}, r"plan.dependencies\[0\].type: Invalid enum value 'MAYBE'"),
        ({"from": "a", "to": "b", "colour": "red"}, r"plan.dependencies\[0\]: .*unknown field `colour`; its fields are id, from, to, type"),
        ({"from": "a", "to": 2}, r"plan.dependencies\[0\].to: Expected `str`"),
        ("a>b", r"plan.dependencies\[0\]: expected an object with from, to, type, condition; got str"),
    ],
)
def test_an_invalid_dependency_is_reported_by_place(line: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        parse_plan({"tasks": [{"task_id": "a"}, {"task_id": "b"}], "dependencies": [line]})


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (None, "plan: expected an object with tasks and dependencies"),
        ([], "plan: expected an object with tasks and dependencies"),
        ({}, "plan: expected an object with tasks and dependencies"),
        ({"tasks": []}, "plan.tasks: there is nothing to do; a plan needs a task"),
        ({"tasks": "a"}, "plan.tasks: expected a list or an object, got str"),
        ({"tasks": ["a"]}, r"plan.tasks\[0\]: expected an object with task_id"),
        ({"tasks": [{"task_id": "a"}], "steps": []}, "plan: unknown field 'steps'; a plan has tasks, dependencies"),
        ({"tasks": [{"task_id": "a"}], 1: 2, "steps": []}, "plan: unknown field 1"),
        ({"tasks": [{"task_id": "a"}], "name": ["n"]}, "plan.name: expected text, got list"),
        ({"tasks": [{"task_id": "a"}], "name": "\ud800"}, "plan.name: .* cannot be shown"),
        ({"tasks": [{"task_id": "a"}, {"task_id": "a"}]}, "plan.tasks: task_id 'a' is there twice; ids are unique"),
        ({"tasks": {"a": {"task_id": "b"}}}, r"plan.tasks\[a\].task_id: 'b' stands under the name 'a'; they must agree"),
        ({"tasks": {1: {}}}, r"plan.tasks\[1\].task_id: Expected `str`"),
        (plan("a b", "a>b a>b"), "plan.dependencies: id 'a->b' is there twice; ids are unique"),
        ({"tasks": [{"task_id": str(number)} for number in range(20_001)]}, "plan.tasks: 20001 tasks; at most 20000"),
    ],
)
def test_an_invalid_plan_is_reported_by_place(document: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        parse_plan(document)


def test_the_deepest_inputs_are_accepted() -> None:
    assert parse_task({"task_id": "a", "inputs": {"x": nested(MAX_DEPTH - 1)}}).task_id == "a"


def test_a_value_that_json_has_no_words_for_is_refused_where_it_stands() -> None:
    with pytest.raises(InvalidInput, match=r"cannot be written as JSON \(Encoding objects of type object is unsupported\)"):
        parse_task({"task_id": "a", "inputs": {"x": object()}})


@pytest.mark.parametrize("items", ["${a.files}", ["x", {"n": "${a}"}]])
def test_a_list_or_a_reference_alone_is_the_items_of_a_fan_out(items: Any) -> None:
    short, whole = ({"tasks": [{"task_id": "b", "for_each": each}]} for each in (items, {"items": items}))
    assert parse_plan(short) == parse_plan(whole)
    assert as_file(parse_plan(short))["tasks"][0]["for_each"] == {"items": items}


@pytest.mark.parametrize(
    ("each", "why"),
    [
        ("files", r"plan.tasks\[0\].for_each.items: 'files' is not a list; give a list, or a reference to one"),
        ("x${a.files}", "is not a list"),
        (3, r"plan.tasks\[0\].for_each: Expected `object \| null`, got `int`"),
        ({}, r"plan.tasks\[0\].for_each: Object missing required field `items`"),
        ({"items": [], "at_once": 3}, "unknown field `at_once`; its fields are items, max_concurrent, failed"),
        ({"items": [], "max_concurrent": 0}, r"plan.tasks\[0\].for_each.max_concurrent: Expected `int` >= 1"),
        ({"items": [], "failed": "skip"}, r"plan.tasks\[0\].for_each.failed: Invalid enum value 'skip'; it is one of stop, omit"),
        (["${item}"], r"plan.tasks\[0\].for_each.items: the list cannot refer to \$\{item\}"),
        ("${index}", r"the list cannot refer to \$\{index\}"),
        (list(range(10_001)), r"plan.tasks\[0\].for_each.items: 10001 items; at most 10000"),
    ],
)
def test_an_invalid_fan_out_is_reported_by_place(each: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse_plan({"tasks": [{"task_id": "b", "for_each": each}]})


def test_the_id_of_an_item_is_no_id_of_a_task() -> None:
    with pytest.raises(InvalidInput, match="is not usable"):
        parse_plan({"tasks": [{"task_id": "b[0]"}]})
