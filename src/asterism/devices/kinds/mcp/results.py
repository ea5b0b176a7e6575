"""The end of a call of an MCP tool as the end of an attempt, and checks of values against the schemas of a tool."""

from __future__ import annotations

from typing import Any

import mcp_types
from mcp import MCPError

from asterism.constellation.model.task import ErrorCode
from asterism.devices.kinds.mcp.files import stored_content
from asterism.devices.kinds.mcp.tools import CONTENT_OUTPUT
from asterism.devices.kinds.remote import one_line
from asterism.devices.port import AttemptResult
from asterism.engine.kernel.conformance import mismatch_text
from asterism.engine.kernel.profile import JsonSchema, Skill

MAX_ERROR_CHARS = 2000


def cut(text: str) -> str:
    """Return a text of a server, cut."""
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - 1]}…"


async def result_of(called: mcp_types.CallToolResult, skill: Skill, session: Any) -> AttemptResult:
    """Return the end of an attempt whose call has ended.

    Args:
        called: result of the call.
        skill: its skill.
        session: session of the server, which reads links.

    Raises:
        AttemptError: as ``stored_content``.
    """
    text = "\n".join(part.text for part in called.content if part.type == "text")
    if called.is_error:
        return AttemptResult.failed("raised", cut(text) or "the tool failed and did not say why")
    if skill.output is not None and skill.output != CONTENT_OUTPUT:
        wrong = content_refusal(skill.name, skill.output, called)
        return AttemptResult.failed("bad_result", wrong) if wrong else AttemptResult(result=called.structured_content)
    result: dict[str, Any] = {"text": text}
    if rest := await stored_content(called.content, session):
        result["content"] = rest
    if called.structured_content is not None:
        result["structured"] = called.structured_content
    return AttemptResult(result=result)


def refusal_of(value: Any, schema: JsonSchema) -> str:
    """Return why a value does not fit a schema of a server; empty if it does."""
    return cut(mismatch_text(value, schema, exact=False))


def content_refusal(name: str, output: JsonSchema, called: mcp_types.CallToolResult) -> str:
    """Return why the structured content of a result does not fit the output schema of its tool; empty if it does."""
    if called.structured_content is None and "structured_content" not in called.model_fields_set:
        return f"tool {name} has an output schema but did not return structured content"
    wrong = refusal_of(called.structured_content, output)
    return f"invalid structured content returned by tool {name}: {wrong}" if wrong else ""


def error_of(error: MCPError) -> AttemptResult:
    """Return the end of an attempt whose call a server refused."""
    code: ErrorCode = "bad_arguments" if error.code == mcp_types.INVALID_PARAMS else "raised"
    return AttemptResult.failed(code, one_line(error.message, MAX_ERROR_CHARS) or f"the server returned error {error.code}")
