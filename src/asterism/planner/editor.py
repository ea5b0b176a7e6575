"""The constellation editor as an MCP server: seven tools onto one draft.

A refusal is an answer and not an exception: ``{code, what, why}`` as structured content. The low-level server of the SDK is used
because the other one drops arguments that it does not know, and turns texts into numbers. The tools are in ``edit_tools``.
"""

from __future__ import annotations

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

from asterism.constellation.edits import EditRefused, Refusal
from asterism.errors import AsterismError
from asterism.planner.draft import Accepted, Draft
from asterism.planner.edit_tools import edit_tools

NAME = "constellation-editor"
RESOURCE = "asterism://constellation"
"""The constellation as it is now, as a resource."""

INSTRUCTIONS = """A constellation is a DAG of tasks over devices. Each tool changes it as a whole or not at all, and answers with the \
constellation and its version. Only tasks that are PENDING or WAITING_DEPENDENCY may be changed. The same call again changes nothing. A \
refusal is an answer with code, what and why: read why, then send something else."""

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


_REMOVING = ("build_constellation", "remove_task", "remove_dependency")


def tools() -> list[Tool]:
    """Return the seven, as ``list_tools`` gives them."""
    return [
        Tool(
            name=it.name,
            description=it.description,
            input_schema=it.schema,
            output_schema=_ANSWER,
            annotations=ToolAnnotations(idempotent_hint=True, destructive_hint=it.name in _REMOVING, open_world_hint=False),
        )
        for it in edit_tools()
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


async def answered(edit: Awaitable[Accepted]) -> CallToolResult:
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
