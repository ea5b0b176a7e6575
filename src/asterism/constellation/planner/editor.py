"""The constellation editor as an MCP server: the tools of ``edit_tools``, on one draft.

A refusal is a result and not an exception: ``{code, what, why}`` as structured content, of a batch
with the ``index`` of the edit that causes it. The SDK's
low-level server is used because its high-level one drops unknown arguments and turns text into
numbers.

There is no login, so only the loopback interface is served, and every local user may call. Browsers
reach it, too, so requests for another host or from another origin are refused (DNS rebinding).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
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
from starlette.types import ASGIApp

from asterism.constellation.model.edits import EditRefused
from asterism.constellation.planner.draft import Accepted, Draft
from asterism.constellation.planner.edit_tools import BATCH_TOOL, batch_tool, edit_tools
from asterism.engine.kernel.refusal import Refusal
from asterism.errors import AsterismError

logging.getLogger("mcp").addHandler(logging.NullHandler())  # the SDK's messages go only to a configured log

NAME = "constellation-editor"
RESOURCE = "asterism://constellation"
"""URI of the current constellation as an MCP resource."""

INSTRUCTIONS = """A constellation is a DAG of tasks over devices. Each tool changes it as a whole or not at all, and answers with the \
constellation and its version. Only tasks that are PENDING or WAITING_DEPENDENCY may be changed. The same call again changes nothing. A \
refusal is an answer with code, what and why: read why, then send something else."""

_ANSWER = {
    "type": "object",
    "properties": {
        "version": {"type": "integer", "description": "Grows by one with each change."},
        "changed": {"type": "boolean", "description": "False if the edit changed nothing."},
        "notes": {"type": "array", "items": {"type": "string"}, "description": "The parts of the edit that changed nothing."},
        "constellation": {"type": "object", "description": "The whole constellation, with the status of each task."},
        "code": {"type": "string", "description": "Reason of a refusal, for programs."},
        "what": {"type": "string", "description": "Subject of a refusal."},
        "why": {"type": "string", "description": "Reason of a refusal, in words."},
        "index": {"type": "integer", "description": "Index of the edit that causes the refusal, from 0, where several were sent."},
    },
    "anyOf": [{"required": ["version", "changed", "notes", "constellation"]}, {"required": ["code", "what", "why"]}],
}

PATH = "/mcp"
_REMOVING = (BATCH_TOOL, "build_constellation", "remove_task", "remove_dependency")


def tools() -> list[Tool]:
    """Return the tools, the seven edits first, as ``list_tools`` lists them."""
    return [
        Tool(
            name=it.name,
            description=it.description,
            input_schema=it.schema,
            output_schema=_ANSWER,
            annotations=ToolAnnotations(idempotent_hint=True, destructive_hint=it.name in _REMOVING, open_world_hint=False),
        )
        for it in (*edit_tools(), batch_tool())
    ]


def editor_server(draft: Draft) -> Server[Any]:
    """Return a server with the tools on a draft, and the constellation as a resource.

    Several clients may call at once; each call is applied as a whole, in some order.
    """
    listed = tools()

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(_: ServerRequestContext[Any], called: CallToolRequestParams) -> CallToolResult:
        given = called.arguments or {}
        return await answered(_apply(draft, given) if called.name == BATCH_TOOL else draft.edit({"tool": called.name, "parameters": given}))

    async def list_resources(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListResourcesResult:
        description = "The current constellation: its version, tasks with their status, dependencies."
        return ListResourcesResult(
            resources=[Resource(uri=RESOURCE, name="constellation", description=description, mime_type="application/json")]
        )

    async def read_resource(_: ServerRequestContext[Any], asked: ReadResourceRequestParams) -> ReadResourceResult:
        if str(asked.uri) != RESOURCE:
            raise MCPError(code=INVALID_PARAMS, message=f"no resource {asked.uri}; the only one is {RESOURCE}")
        try:
            text = (await draft.read()).to_json()
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


async def _apply(draft: Draft, given: Mapping[str, Any]) -> Accepted:
    actions = given.get("actions")
    if given.keys() != {"actions"} or not isinstance(actions, list) or not actions:
        why = 'expected {"actions": [{"tool": …, "parameters": {…}}, …]} with at least one edit'
        raise EditRefused("bad_content", BATCH_TOOL, why)
    return await draft.edit(*actions)


async def answered(edit: Awaitable[Accepted]) -> CallToolResult:
    """Return the result of one call: the accepted edits, or their refusal."""
    try:
        accepted = await edit
    except EditRefused as refused:
        return _answer(msgspec.to_builtins(refused.refusal) | {"why": str(refused.refusal.why)}, is_error=True)
    except AsterismError as error:
        return _answer(msgspec.to_builtins(Refusal(code="unavailable", what="constellation", why=str(error))), is_error=True)
    it = accepted.constellation
    return _answer({"version": it.version, "changed": accepted.changed, "notes": list(accepted.notes), "constellation": it.shown()})


def _answer(content: Mapping[str, Any], *, is_error: bool = False) -> CallToolResult:
    text = json.dumps(content, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=dict(content), is_error=is_error)


# -- serving ---------------------------------------------------------------------------------------


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client until it closes standard input."""
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def editor_app(server: Server[Any]) -> ASGIApp:
    """Return a server for any number of clients over streamable HTTP, at ``PATH`` of a loopback address."""
    return server.streamable_http_app(streamable_http_path=PATH, host="127.0.0.1")  # this host enables the guard against rebinding
