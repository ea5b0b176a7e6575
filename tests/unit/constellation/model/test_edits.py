from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.model.edits import (
    AddDependency,
    AddTask,
    BuildConstellation,
    EditRefused,
    RemoveDependency,
    RemoveTask,
    UpdateDependency,
    UpdateTask,
    parse_action,
)
from asterism.constellation.model.line import DependencyType
from asterism.engine.kernel.refusal import verdict_of
from tests.support.constellations import seed


def test_the_seeds_editing_reply_is_three_edits_verbatim() -> None:
    add, depend, remove = map(parse_action, seed("editing")["actions"])
    assert isinstance(add, AddTask)
    assert (add.task.task_id, add.task.name, add.task.device) == ("task_005", "retrain_with_tuning", "gpu_server")
    assert isinstance(depend, AddDependency)
    assert (depend.dependency.line_id, depend.dependency.dependency_type) == ("task_003->task_005", DependencyType.SUCCESS_ONLY)
    assert remove == RemoveTask(task_id="task_004")


@pytest.mark.parametrize(
    "action",
    [
        {"tool": "remove_task", "parameters": {"task_id": "a"}},
        {"tool": "remove_task", "arguments": {"task_id": "a"}},
        {"function": "remove_task", "parameters": {"task_id": "a"}},
        {"function": "remove_task", "arguments": {"task_id": "a"}},
        {"action": "remove_task", "arguments": {"task_id": "a"}},
    ],
)
def test_an_action_may_be_spelled_in_each_way(action: dict[str, Any]) -> None:
    assert parse_action(action) == RemoveTask(task_id="a")


def test_each_of_the_seven_tools_is_read() -> None:
    plan = {"tasks": [{"task_id": "a"}], "dependencies": []}
    given: dict[str, dict[str, Any]] = {
        "build_constellation": {"config": plan, "clear": False},
        "add_task": {"task_id": "a"},
        "remove_task": {"task_id": "a"},
        "update_task": {"task_id": "a", "name": "n"},
        "add_dependency": {"from": "a", "to": "b"},
        "remove_dependency": {"dependency_id": "a->b"},
        "update_dependency": {"dependency_id": "a->b", "type": "UNCONDITIONAL"},
    }
    kinds = [type(parse_action({"tool": tool, "parameters": parameters})) for tool, parameters in given.items()]
    assert kinds == [BuildConstellation, AddTask, RemoveTask, UpdateTask, AddDependency, RemoveDependency, UpdateDependency]


@pytest.mark.parametrize(
    ("parameters", "clear"),
    [
        ({"config": {"tasks": [{"task_id": "a"}]}}, True),
        ({"config": {"tasks": [{"task_id": "a"}]}, "clear": False}, False),
        ({"config": {"tasks": [{"task_id": "a"}]}, "clear_existing": False}, False),
        ({"tasks": [{"task_id": "a"}], "dependencies": [], "clear": False}, False),
        ({"config": {"constellation": {"tasks": [{"task_id": "a"}]}}}, True),
    ],
)
def test_build_constellation_accepts_its_plan_and_its_clear_flag(parameters: dict[str, Any], *, clear: bool) -> None:
    edit = parse_action({"tool": "build_constellation", "parameters": parameters})
    assert isinstance(edit, BuildConstellation)
    assert edit.clear is clear
    assert [task.task_id for task in edit.plan.tasks] == ["a"]


@pytest.mark.parametrize(
    ("action", "code", "told"),
    [
        ("remove a", "bad_content", "actions: expected an object with tool and parameters, got str"),
        ({}, "unknown_edit", "unknown tool ''; the tools are build_constellation, add_task, remove_task"),
        ({"tool": "rename_task", "parameters": {}}, "unknown_edit", "unknown tool 'rename_task'"),
        ({"tool": 7}, "unknown_edit", "unknown tool ''"),
        ({"tool": "remove_task", "parameters": ["a"]}, "bad_content", "the parameters of remove_task are an object, not list"),
        ({"tool": "remove_task", "parameters": {}}, "bad_content", "missing required field `task_id`"),
        ({"tool": "remove_task", "parameters": {"task_id": "a", "force": True}}, "bad_content", "unknown field `force`"),
        ({"tool": "remove_dependency", "parameters": {"dependency_id": 3}}, "bad_content", "Expected `str`"),
        ({"tool": "update_task", "parameters": {"name": "n"}}, "bad_content", "task_id is missing"),
        ({"tool": "update_dependency", "parameters": {"dependency_id": "x", "type": "MAYBE"}}, "bad_content", "Invalid enum value 'MAYBE'"),
        (
            {"tool": "update_dependency", "parameters": {"dependency_id": "x", "conditon": "a > 1"}},
            "bad_content",
            "unknown field `conditon`",
        ),
        ({"tool": "add_task", "parameters": {"task_id": "a", "size": 1}}, "bad_content", "add_task: task: .*unknown field `size`"),
        ({"tool": "add_dependency", "parameters": {"from": "a"}}, "bad_content", "missing required field `to`"),
        ({"tool": "build_constellation", "parameters": {"tasks": [], "clear": 1}}, "bad_content", "clear is true or false, not 1"),
        ({"tool": "build_constellation", "parameters": {"config": {"tasks": []}}}, "bad_content", "there is nothing to do"),
    ],
)
def test_an_action_that_cannot_be_read_is_refused_with_a_code(action: Any, code: str, told: str) -> None:
    with pytest.raises(EditRefused, match=told) as raised:
        parse_action(action, "actions")
    assert raised.value.refusal.code == code
    assert raised.value.refusal.what == "actions"


def test_reading_an_action_leaves_it_as_it_is() -> None:
    action = {"tool": "build_constellation", "parameters": {"tasks": [{"task_id": "a", "tips": "x"}], "clear": False}}
    before = repr(action)
    parse_action(action)
    assert repr(action) == before


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("remove_task", {"task_id": "\ud800"}),
        ("remove_dependency", {"dependency_id": "\ud800"}),
        ("update_dependency", {"dependency_id": "a->b", "condition": "\ud800"}),
        ("update_task", {"task_id": "\ud800"}),
        ("update_task", {"task_id": "a", "priority": "\ud800"}),
        ("update_task", {"task_id": "a", "\ud800": 1}),
        ("remove_task", {"task_id": "a", "\ud800": 1}),
    ],
)
def test_half_a_character_is_refused_where_the_edit_is_read(tool: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(EditRefused, match=f"{tool}: parameters: half a character") as raised:
        parse_action({"tool": tool, "parameters": parameters})
    assert "bad_content" in verdict_of(raised.value)
