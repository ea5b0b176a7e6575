from __future__ import annotations

import json
from typing import Any

import pytest

from asterism.constellation.model.documents import parse_plan
from asterism.constellation.planner import reply as reply_module
from asterism.constellation.planner.reply import ConstellationAgentResponse, InvalidReply, parse_reply
from tests.support.constellations import plan, seed

GOOD: dict[str, Any] = {"thought": "why", "status": "CONTINUE"}


def read(**fields: Any) -> ConstellationAgentResponse:
    return parse_reply(json.dumps({**GOOD, **fields}))


def refused(text: str | dict[str, Any]) -> str:
    with pytest.raises(InvalidReply) as caught:
        parse_reply(text if isinstance(text, str) else json.dumps(text))
    return str(caught.value)


# -- what is accepted ----------------------------------------------------------------------------------


def test_the_seeds_creation_reply_is_read() -> None:
    found = parse_reply(json.dumps(seed("creation")))
    assert found.status == "CONTINUE"
    assert found.constellation == parse_plan(seed("creation"))
    assert len(found.constellation.tasks) == 4


def test_the_seeds_editing_reply_is_read() -> None:
    found = parse_reply(json.dumps(seed("editing")))
    assert [action["tool"] for action in found.actions] == ["add_task", "add_dependency", "remove_task"]
    assert found.actions[2] == {"tool": "remove_task", "parameters": {"task_id": "task_004"}}


@pytest.mark.parametrize(
    "action",
    [
        {"tool": "remove_task", "parameters": {"task_id": "a"}},
        {"function": "remove_task", "arguments": {"task_id": "a"}},
        {"action": "remove_task", "parameters": {"task_id": "a"}},
        {"tool": "remove_task", "arguments": {"task_id": "a"}},
    ],
)
def test_every_documented_spelling_of_an_action_means_the_same(action: dict[str, Any]) -> None:
    expected = ({"tool": "remove_task", "parameters": {"task_id": "a"}},)
    assert read(actions=[action]).actions == expected
    assert read(action=[action]).actions == expected
    assert read(action=action).actions == expected


def test_state_is_read_as_status_and_capital_names_are_accepted() -> None:
    found = parse_reply('{"Thought": "why", "State": " finish ", "Observation": "o", "Result": {"summary": "s"}}')
    assert (found.thought, found.status, found.observation, found.result) == ("why", "FINISH", "o", {"summary": "s"})


@pytest.mark.parametrize("status", ["START", "CONTINUE", "FINISH", "FAIL"])
def test_each_status_is_accepted(status: str) -> None:
    assert read(status=status).status == status


@pytest.mark.parametrize(
    "text",
    [
        "```json\n{}\n```",
        "```\n{}\n```",
        "Here is my plan:\n{}",
        "{}\nThat is all.",
        "I thought about it.\n\n```json\n{}\n```\nDone.",
    ],
)
def test_code_fences_and_words_around_the_object_are_ignored(text: str) -> None:
    assert parse_reply(text.replace("{}", json.dumps(GOOD, indent=1))).thought == "why"


def test_a_fence_within_a_thought_does_not_end_the_reply() -> None:
    assert parse_reply('```json\n{"thought": "as in ```x```", "status": "FINISH"}\n```').thought == "as in ```x```"


@pytest.mark.parametrize(
    ("given", "read_as"),
    [({"summary": "s", "n": 1}, {"summary": "s", "n": 1}), ("done", {"summary": "done"}), (None, {}), ([1], {"summary": "[1]"})],
)
def test_a_result_may_be_anything(given: Any, read_as: dict[str, Any]) -> None:
    assert read(result=given).result == read_as


@pytest.mark.parametrize("nothing", [None, [], {}, ""])
def test_empty_fields_are_absent(nothing: Any) -> None:
    found = read(actions=nothing, constellation=nothing, observation=nothing or "")
    assert (found.actions, found.constellation) == ((), None)


# -- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("thought", [None, "", "  "])
def test_a_missing_thought_is_named(thought: Any) -> None:
    assert refused({"status": "CONTINUE", "thought": thought}).startswith("missing 'thought' field")


def test_a_missing_status_is_reported_with_the_allowed_values() -> None:
    assert refused({"thought": "x"}) == "missing 'status' field: it is one of START, CONTINUE, FINISH, FAIL"


def test_an_unknown_status_is_reported_with_the_allowed_values() -> None:
    assert refused({**GOOD, "status": "DONE"}) == "unknown status 'DONE'; it is one of START, CONTINUE, FINISH, FAIL"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the reply is empty"),
        ("  \n", "the reply is empty"),
        ("I cannot do that.", "holds no JSON object"),
        (json.dumps({**GOOD, "constellation": plan("a b c")})[:-20], "broken or cut off"),
        ('{"thought": "x", "status": "FINISH", }', "broken or cut off"),
        ('{"thought": "x", "status": "FINISH", "result": {"n": NaN}}', "NaN is not a JSON number"),
        ('{"thought": "x", "status": "FINISH", "result": {"n": "\\ud800"}}', "half a character"),
        ('{"thought": "x", "status": "FINISH", "result": ' + "[" * 500 + "]" * 500 + "}", "within each other"),
        ('{"thought": "x", "status": "FINISH", "result": ' + "[" * 100_000 + "]" * 100_000 + "}", "cannot be used"),
        ('{"thought": "x", "status": "FINISH", "result": ' + "9" * 5000 + "}", "cannot be used"),
        (json.dumps(GOOD) + json.dumps(GOOD), "more than one reply"),
        (f"```json\n{json.dumps(GOOD)}\n```\nor\n```json\n{json.dumps(GOOD)}\n```", "more than one reply"),
        (f"{json.dumps(GOOD)}\n```json\n{json.dumps(GOOD)}\n```", "more than one reply"),
        ('{"thought": "x", "status": "FAIL", "status": "FINISH"}', "duplicate name 'status'"),
        ('["thought", "status"]', "holds no JSON object"),
    ],
)
def test_an_invalid_reply_is_refused_with_a_reason(text: str, told: str) -> None:
    assert told in refused(text)


def test_a_reply_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_module, "MAX_REPLY", 50)
    assert "at most 50" in refused({**GOOD, "observation": "x" * 50})


@pytest.mark.parametrize("name", ["run_shell", "list_tools", "read_tasks", "", "build_constellation "])
def test_a_tool_outside_the_seven_is_refused_with_the_seven(name: str) -> None:
    told = refused({**GOOD, "actions": [{"tool": name, "parameters": {}}]})
    assert "unknown tool" in told
    assert "build_constellation, add_task, remove_task, update_task, add_dependency, remove_dependency, update_dependency" in told


@pytest.mark.parametrize(
    ("actions", "told"),
    [
        ("remove_task", "'actions' is a list"),
        ([["remove_task"]], "actions[0]"),
        ([{"tool": "remove_task", "parameters": "a"}], "actions[0]"),
        ([{"tool": "remove_task", "parameters": {"task_id": "a"}}, {"tool": "remove_task", "parameters": {"id": "a"}}], "actions[1]"),
        ([{"tool": "add_task", "parameters": {"task_id": "no spaces"}}], "not usable"),
    ],
)
def test_an_unreadable_action_is_named_by_its_place(actions: Any, told: str) -> None:
    assert told in refused({**GOOD, "actions": actions})


def test_too_many_actions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_module, "MAX_ACTIONS", 1)
    assert "at most 1" in refused({**GOOD, "actions": [{"tool": "remove_task", "parameters": {"task_id": "a"}}] * 2})


def test_an_unreadable_plan_is_named_by_its_place() -> None:
    assert refused({**GOOD, "constellation": {"tasks": [{"task_id": "a", "colour": "red"}]}}).startswith("constellation.tasks[0]: ")
    assert "thought" in refused({"thought": ["x"], "status": "FAIL"})
