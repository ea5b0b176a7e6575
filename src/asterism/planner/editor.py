"""The constellation editor as an MCP server: seven tools onto one draft.

What a tool takes is described for a model, from the types that read it; what it is given is read by ``parse_action``, as
everywhere. A refusal is an answer and not an exception: ``{code, what, why}`` as structured content. The low-level server of the
SDK is used because the other one drops arguments that it does not know, and turns texts into numbers.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

from asterism.constellation.documents import LineSpec, PlanDocument, TaskSpec
from asterism.constellation.edits import EditRefused, Refusal
from asterism.errors import AsterismError
from asterism.planner.draft import Draft, Taken

NAME = "constellation-editor"
RESOURCE = "asterism://constellation"
"""The constellation as it is now, as a resource."""

INSTRUCTIONS = """A constellation is a DAG of tasks over devices. Each tool changes it as a whole or not at all, and answers with the \
constellation and its version. Only tasks that are PENDING or WAITING_DEPENDENCY may be changed. The same call again changes nothing. A \
refusal is an answer with code, what and why: read why, then send something else."""

_TASK = {
    "task_id": "Unique id; letters, digits, _ and -.",
    "name": "Short name; also names the skill, where skill is not given.",
    "description": "What is to be done, in words.",
    "device": "Id of the device that does it.",
    "skill": "Name of a skill of that device.",
    "tips": "Advice for whoever carries it out.",
    "inputs": "Arguments. A text may hold ${task_id.field}: that field of the result of a task upstream.",
    "priority": "Higher goes first on a busy device.",
    "timeout_s": "Bound on one attempt, in seconds.",
    "deadline_s": "Bound on the whole task, in seconds from the start of the run.",
    "retry": "When a failed attempt is tried again.",
    "requires_approval": "A person must say yes before it runs.",
    "constellation": "A plan of tasks and dependencies that carries it out, in place of device and skill.",
}
_LINE = {
    "id": "Unique id; by default from->to.",
    "from": "Id of the task waited for.",
    "to": "Id of the task that waits.",
    "type": "How the end of the task waited for is judged: SUCCESS_ONLY unless a condition is given.",
    "condition": "CEL over the fields of its result, such as: accuracy > 0.95. Makes the dependency CONDITIONAL.",
}
_PLAN = {
    "constellation_id": "Optional id.",
    "name": "Optional name, for people.",
    "tasks": "The tasks.",
    "dependencies": "Which task waits for which.",
}
_TASK_ID = {"type": "string", "description": "Id of the task."}
_LINE_ID = {"type": "string", "description": "Id of the dependency; from->to unless it was given another."}


@functools.cache
def _schemas() -> dict[str, dict[str, Any]]:
    """What each tool takes, as JSON Schema, from the types that read it; made once, to be read only."""
    kinds = (TaskSpec, LineSpec, PlanDocument)
    _, found = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for name, words in (("TaskSpec", _TASK), ("LineSpec", _LINE), ("PlanDocument", _PLAN)):
        for field, description in words.items():
            shown = found[name]["properties"][field]
            found[name]["properties"][field] = (
                {"anyOf": [shown], "description": description} if "$ref" in shown else {**shown, "description": description}
            )
        found[name].pop("description", None)  # python -OO keeps no docstrings
    found["RetryPolicy"]["description"] = _TASK["retry"]
    task, line, plan = (found[kind.__name__]["properties"] for kind in kinds)
    clear = {"type": "boolean", "default": True, "description": "In place of what is there; false merges the plan into it."}
    unset = {name: {key: value for key, value in it.items() if key != "default"} for name, it in task.items()}

    def takes(properties: dict[str, Any], *required: str) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
            **_defs(properties, found),
        }

    return {
        "build_constellation": takes({**plan, "clear": clear}, "tasks"),
        "add_task": takes(task, "task_id"),
        "remove_task": takes({"task_id": _TASK_ID}, "task_id"),
        "update_task": takes({**unset, "task_id": _TASK_ID}, "task_id"),
        "add_dependency": takes(line, "from", "to"),
        "remove_dependency": takes({"dependency_id": _LINE_ID}, "dependency_id"),
        "update_dependency": takes(
            {"dependency_id": _LINE_ID, "type": {**line["type"], "default": None}, "condition": line["condition"]}, "dependency_id"
        ),
    }


def _defs(properties: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions that some properties refer to, those that these refer to included."""
    used: dict[str, Any] = {}
    text = json.dumps(properties)
    while more := [name for name in found if name not in used and f'"#/$defs/{name}"' in text]:  # bounded: each round uses another one
        used.update({name: found[name] for name in more})
        text = json.dumps(used)
    return {"$defs": used} if used else {}


_WORDS = {
    "build_constellation": "Build the constellation from a whole plan, in place of what is there; with clear=false, merge the plan into "
    "what is there. With clear=false this also adds several tasks and dependencies at once: use it where a task's inputs refer to others.",
    "add_task": "Add a task. It waits for nothing until dependencies are added.",
    "remove_task": "Remove a task that has not started, with its dependencies.",
    "update_task": "Change the given fields of a task that has not started; the others stay.",
    "add_dependency": "Let one task wait for another. The one that waits must not have started.",
    "remove_dependency": "Remove a dependency.",
    "update_dependency": "Change the type or the condition of a dependency. A condition alone makes it CONDITIONAL.",
}

_ANSWER = {
    "type": "object",
    "properties": {
        "version": {"type": "integer", "description": "Grows by one with each change."},
        "changed": {"type": "boolean", "description": "False when it was so already."},
        "notes": {"type": "array", "items": {"type": "string"}, "description": "What changed nothing, in words."},
        "constellation": {"type": "object", "description": "The whole constellation, with the status of each task."},
        "code": {"type": "string", "description": "Why it was refused, for programs."},
        "what": {"type": "string", "description": "What the refusal is about."},
        "why": {"type": "string", "description": "Why it was refused, in words."},
    },
    "anyOf": [{"required": ["version", "changed", "notes", "constellation"]}, {"required": ["code", "what", "why"]}],
}


def tools() -> list[Tool]:
    """The seven, as ``list_tools`` gives them."""
    removing = ("build_constellation", "remove_task", "remove_dependency")
    return [
        Tool(
            name=name,
            description=_WORDS[name],
            input_schema=schema,
            output_schema=_ANSWER,
            annotations=ToolAnnotations(idempotent_hint=True, destructive_hint=name in removing, open_world_hint=False),
        )
        for name, schema in _schemas().items()
    ]


def editor_server(draft: Draft) -> Server[Any]:
    """A server with the seven tools onto a draft, and the constellation as a resource.

    Several clients may call at once; each edit is taken whole, in some order.
    """
    listed = tools()

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(_: ServerRequestContext[Any], called: CallToolRequestParams) -> CallToolResult:
        return await answered(draft.edit({"tool": called.name, "parameters": called.arguments or {}}))

    async def list_resources(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListResourcesResult:
        told = "The constellation as it is now: its version, tasks with their status, dependencies."
        return ListResourcesResult(resources=[Resource(uri=RESOURCE, name="constellation", description=told, mime_type="application/json")])

    async def read_resource(_: ServerRequestContext[Any], asked: ReadResourceRequestParams) -> ReadResourceResult:
        if str(asked.uri) != RESOURCE:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no resource {asked.uri}; there is {RESOURCE}")
        try:
            text = (await draft.look()).to_json()
        except AsterismError as error:
            raise MCPError(code=INVALID_PARAMS, message=str(error)) from None
        return ReadResourceResult(contents=[TextResourceContents(uri=RESOURCE, mime_type="application/json", text=text)])

    return Server(
        NAME,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


async def answered(edit: Awaitable[Taken]) -> CallToolResult:
    """The answer to one call: what was taken, or why it was refused."""
    try:
        taken = await edit
    except EditRefused as refused:
        return _answer(msgspec.to_builtins(refused.refusal), is_error=True)
    except AsterismError as error:
        return _answer(msgspec.to_builtins(Refusal(code="unavailable", what="constellation", why=str(error))), is_error=True)
    it = taken.constellation
    return _answer({"version": it.version, "changed": taken.changed, "notes": list(taken.notes), "constellation": it.to_dict()})


def _answer(content: Mapping[str, Any], *, is_error: bool = False) -> CallToolResult:
    text = json.dumps(content, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=dict(content), is_error=is_error)
