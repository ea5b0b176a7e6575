"""The end of a call of an MCP tool as the end of an attempt."""

from __future__ import annotations

from typing import Any

import mcp_types
from mcp import MCPError

from asterism.constellation.model.task import ErrorCode, TaskError
from asterism.devices.kinds.mcp.files import stored_content
from asterism.devices.kinds.mcp.schema_check import MAX_ERROR_CHARS, SchemaCheck, cut
from asterism.devices.kinds.mcp.tools import CONTENT_OUTPUT
from asterism.devices.kinds.remote_text import one_line
from asterism.devices.port import AttemptResult
from asterism.engine.kernel.profile import JsonSchema, Skill


def failed(code: ErrorCode, message: str) -> AttemptResult:
    """Return the end of an attempt with an error."""
    return AttemptResult(error=TaskError(code=code, message=message))


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
        return failed("raised", cut(text) or "the tool failed and did not say why")
    if skill.output is not None and skill.output != CONTENT_OUTPUT:
        wrong = content_refusal(skill.name, skill.output, called)
        return failed("bad_result", wrong) if wrong else AttemptResult(result=called.structured_content)
    result: dict[str, Any] = {"text": text}
    if rest := await stored_content(called.content, session):
        result["content"] = rest
    if called.structured_content is not None:
        result["structured"] = called.structured_content
    return AttemptResult(result=result)


def content_refusal(name: str, output: JsonSchema, called: mcp_types.CallToolResult) -> str:
    """Return why the structured content of a result does not fit the output schema of its tool; empty if it does."""
    if called.structured_content is None and "structured_content" not in called.model_fields_set:
        return f"tool {name} has an output schema but did not return structured content"
    wrong = SchemaCheck(output).refusal(called.structured_content)
    return f"invalid structured content returned by tool {name}: {wrong}" if wrong else ""


def error_of(error: MCPError) -> AttemptResult:
    """Return the end of an attempt whose call a server refused."""
    code: ErrorCode = "bad_arguments" if error.code == mcp_types.INVALID_PARAMS else "raised"
    return failed(code, one_line(error.message, MAX_ERROR_CHARS) or f"the server returned error {error.code}")
