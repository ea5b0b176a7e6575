"""The tools of the editor, through the SDK's client in process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult

from asterism.constellation.model.documents import LineSpec
from asterism.constellation.model.edits import MAX_EDITS, EditRefused
from asterism.constellation.model.task import TaskSpec
from asterism.constellation.planner.draft import MemoryDraft
from asterism.constellation.planner.editor import RESOURCE, editor_server, tools
from asterism.constellation.planner.port import PlannerRequest
from tests.support.constellation_harness import FLEET
from tests.support.constellations import SEVEN, action, constellation, seed

PROFILES = {profile.device_id: profile for profile in FLEET}
A = {"task_id": "a", "device": "d", "description": "do it"}
B = {"task_id": "b", "device": "s", "skill": "once", "inputs": {"x": "${a}"}}


def served(draft: MemoryDraft, talk: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with Client(editor_server(draft)) as client:
            return await talk(client)

    return asyncio.run(main())


def called(draft: MemoryDraft, *calls: tuple[str, dict[str, Any] | None]) -> list[CallToolResult]:
    async def talk(client: Client) -> list[CallToolResult]:
        await client.list_tools()  # so that the client checks every answer against the output schema
        return [await client.call_tool(name, arguments) for name, arguments in calls]

    answers: list[CallToolResult] = served(draft, talk)
    return answers


def refusal(answer: CallToolResult) -> tuple[str, str, str]:
    assert answer.is_error
    assert answer.structured_content is not None
    assert set(answer.structured_content) == {"code", "what", "why"}
    return answer.structured_content["code"], answer.structured_content["what"], answer.structured_content["why"]


def test_a_client_lists_the_seven_edits_and_their_batch_each_described_and_typed() -> None:
    listed = served(MemoryDraft(), lambda client: client.list_tools()).tools
    assert [tool.name for tool in listed] == [*SEVEN, "apply_edits"]
    for tool in listed:
        assert (tool.input_schema["type"], tool.input_schema["additionalProperties"]) == ("object", False)
        assert tool.description
        assert all(shown.get("description") for shown in tool.input_schema["properties"].values())


def test_the_tool_schemas_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known = tools()
    monkeypatch.delattr("msgspec.json.schema_components")
    assert tools() == known


def test_the_tool_schemas_match_the_types() -> None:
    by_name = {tool.name: tool.input_schema for tool in tools()}
    assert set(by_name["add_task"]["properties"]) == set(TaskSpec.__struct_fields__)
    assert set(by_name["update_task"]["properties"]) == set(TaskSpec.__struct_fields__)
    assert set(by_name["add_dependency"]["properties"]) == {"id", "from", "to", "type", "condition"}
    assert len(LineSpec.__struct_fields__) == 5


def test_the_batch_takes_each_edit_with_the_schema_of_its_own_tool() -> None:
    *single, batch = (tool.input_schema for tool in tools())
    actions = batch["properties"]["actions"]
    assert (actions["minItems"], actions["maxItems"]) == (1, MAX_EDITS)
    choices = [choice["properties"] for choice in actions["items"]["anyOf"]]
    assert [choice["tool"] for choice in choices] == [{"const": name} for name in SEVEN]
    for choice, schema in zip(choices, single, strict=True):
        assert {**choice["parameters"], "$defs": schema.get("$defs", {})} == {**schema, "$defs": schema.get("$defs", {})}
        assert batch["$defs"].items() >= schema.get("$defs", {}).items()


def test_a_batch_is_applied_as_a_whole_and_the_same_batch_again_changes_nothing() -> None:
    actions = {"actions": [*seed("editing")["actions"]]}
    draft = MemoryDraft(constellation("task_003 task_004", "task_003>task_004"))
    first, again = (answer.structured_content or {} for answer in called(draft, ("apply_edits", actions), ("apply_edits", actions)))
    assert (first["changed"], first["version"]) == (True, 1)
    assert [task["task_id"] for task in first["constellation"]["tasks"]] == ["task_003", "task_005"]
    assert (again["changed"], again["version"], len(again["notes"])) == (False, 1, 3)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([action("add_task", task_id="n"), action("fly"), action("remove_task", task_id="never")], ("unknown_edit", "action", 1)),
        ([action("add_task", task_id="n"), action("remove_task", task_id="never")], ("unknown_task", "never", 1)),
        ([action("add_task", task_id="n", device="moon"), action("add_task", task_id="m")], ("unknown_device", "n", 0)),
        ([action("add_task", task_id="n"), 7], ("bad_content", "action", 1)),
        ([action("remove_task", task_id="never")], ("unknown_task", "never", None)),
        ([action("add_task", task_id="n")] * (MAX_EDITS + 1), ("too_many", "actions", None)),
        ([], ("bad_content", "apply_edits", None)),
        ({}, ("bad_content", "apply_edits", None)),
    ],
)
def test_a_refused_batch_names_the_edit_and_changes_nothing(actions: Any, expected: tuple[str, str, int | None]) -> None:
    draft = MemoryDraft(fleet=PROFILES)
    _, refused = called(draft, ("add_task", A), ("apply_edits", {"actions": actions}))
    told = refused.structured_content or {}
    assert refused.is_error
    assert (told["code"], told["what"], told.get("index")) == expected
    assert (draft.constellation.version, [*draft.constellation.tasks]) == (1, ["a"])


def test_each_tool_returns_the_constellation_and_its_version() -> None:
    plan = {"tasks": [A], "dependencies": []}
    calls: list[tuple[str, dict[str, Any] | None]] = [
        ("build_constellation", plan),
        ("add_task", B),
        ("add_dependency", {"from": "a", "to": "b"}),
        ("update_dependency", {"dependency_id": "a->b", "condition": "status == 'COMPLETED'"}),
        ("update_task", {"task_id": "b", "priority": 3}),
        ("remove_dependency", {"dependency_id": "a->b"}),
        ("remove_task", {"task_id": "b"}),
    ]
    answers = called(MemoryDraft(fleet=PROFILES), *calls)
    told = [answer.structured_content or {} for answer in answers]
    assert [it["version"] for it in told] == [1, 2, 3, 4, 5, 6, 7]
    assert all(it["changed"] and it["constellation"]["version"] == it["version"] for it in told)
    assert told[4]["constellation"]["dependencies"][0]["type"] == "CONDITIONAL"
    assert told[4]["constellation"]["tasks"][1]["priority"] == 3
    assert [task["task_id"] for task in told[6]["constellation"]["tasks"]] == ["a"]
    assert answers[0].content[0].type == "text"
    assert json.loads(answers[0].content[0].text) == told[0]


def test_the_same_call_again_changes_nothing_and_says_so() -> None:
    first, again = called(MemoryDraft(), ("add_task", A), ("add_task", A))
    assert (first.structured_content or {})["changed"]
    told = again.structured_content or {}
    assert (told["changed"], told["version"], told["notes"]) == (False, 1, ["add_task a: it is there already"])


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("add_task", None, "bad_content"),
        ("add_task", {**A, "colour": 1}, "bad_content"),
        ("add_task", {**A, "priority": "5"}, "bad_content"),
        ("add_task", {**A, "description": "something else"}, "different_content"),
        ("add_task", {"task_id": "n", "device": "moon"}, "unknown_device"),
        ("add_task", {"task_id": "n", "device": "s", "skill": "fly"}, "unknown_skill"),
        ("update_task", {"task_id": "never"}, "unknown_task"),
        ("remove_dependency", {"dependency_id": "x->y"}, "unknown_dependency"),
        ("add_dependency", {"from": "a", "to": "a"}, "cycle"),
        ("build_constellation", {"tasks": 3}, "bad_content"),
        ("build_constellation", {"tasks": [A], "clear": "yes"}, "bad_content"),
        ("format_disk", {}, "unknown_edit"),
    ],
)
def test_a_refusal_is_structured_content_and_changes_nothing(tool: str, arguments: dict[str, Any] | None, code: str) -> None:
    draft = MemoryDraft(fleet=PROFILES)
    _, refused = called(draft, ("add_task", A), (tool, arguments))
    assert refusal(refused)[0] == code
    assert draft.constellation.version == 1


def test_a_task_that_has_started_is_read_only() -> None:
    there = MemoryDraft()
    asyncio.run(there.edit({"tool": "add_task", "parameters": A}))
    there.constellation.tasks["a"].status = there.constellation.tasks["a"].status.RUNNING
    draft = MemoryDraft(there.constellation)
    refused, kept = called(draft, ("remove_task", {"task_id": "a"}), ("add_task", {"task_id": "n"}))
    assert refusal(refused) == ("read_only", "a", "it is RUNNING; only PENDING and WAITING_DEPENDENCY tasks may be edited")
    assert (kept.structured_content or {})["version"] == 2


def test_the_constellation_is_a_resource() -> None:
    draft = MemoryDraft()
    called(draft, ("add_task", A))
    read = served(draft, lambda client: client.read_resource(RESOURCE))
    assert json.loads(read.contents[0].text)["tasks"][0]["task_id"] == "a"

    async def read_another(client: Client) -> None:
        with pytest.raises(MCPError, match="no resource asterism://moon"):
            await client.read_resource("asterism://moon")

    served(draft, read_another)


def test_a_task_may_come_before_the_dependency_that_its_inputs_need() -> None:
    draft = MemoryDraft(fleet=PROFILES)
    called(draft, ("add_task", A), ("add_task", B))
    with pytest.raises(EditRefused, match="not upstream") as refused:
        draft.check()
    assert refused.value.refusal.code == "bad_reference"
    called(draft, ("add_dependency", {"from": "a", "to": "b"}))
    assert draft.check().tasks == ("a", "b")


def test_editing_a_draft_does_not_change_its_question() -> None:
    begun = MemoryDraft(fleet=PROFILES)
    called(begun, ("add_task", A))
    question = PlannerRequest(key="q", mode="EDITING", request="", fleet=PROFILES, constellation=begun.constellation.to_dict())
    before = json.dumps(question.constellation)
    draft = MemoryDraft(type(begun.constellation).from_dict(question.constellation), question.fleet)
    called(draft, ("remove_task", {"task_id": "a"}))
    assert draft.constellation.tasks == {}
    assert json.dumps(question.constellation) == before
