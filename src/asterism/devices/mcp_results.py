"""The end of a call of an MCP tool as the end of an attempt."""

from __future__ import annotations

from typing import Any

import mcp_types
from jsonschema import exceptions as schema_errors
from jsonschema.validators import validator_for
from mcp import MCPError
from referencing import Registry
from referencing.exceptions import Unresolvable

from asterism.constellation.profile import JsonSchema
from asterism.constellation.task import ErrorCode, TaskError
from asterism.devices.mcp_tools import CONTENT_OUTPUT, one_line
from asterism.runtime.ports.device import AttemptResult

MAX_ERROR_CHARS = 2000


def failed(code: ErrorCode, message: str) -> AttemptResult:
    """Return the end of an attempt with an error."""
    return AttemptResult(error=TaskError(code=code, message=message))


def result_of(called: mcp_types.CallToolResult, output: JsonSchema | None) -> AttemptResult:
    """Return the end of an attempt whose call has ended; ``output`` is the output schema of its skill."""
    text = "\n".join(part.text for part in called.content if part.type == "text")
    if called.is_error:
        return failed("raised", _cut(text) or "the tool failed and did not say why")
    if output is not None and output != CONTENT_OUTPUT:
        return AttemptResult(result=called.structured_content)  # the SDK has checked it against the schema
    result: dict[str, Any] = {"text": text}
    if rest := [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in called.content if part.type != "text"]:
        result["content"] = rest
    if called.structured_content is not None:
        result["structured"] = called.structured_content
    return AttemptResult(result=result)


def error_of(error: MCPError) -> AttemptResult:
    """Return the end of an attempt whose call a server refused."""
    code: ErrorCode = "bad_arguments" if error.code == mcp_types.INVALID_PARAMS else "raised"
    return failed(code, one_line(error.message, MAX_ERROR_CHARS) or f"the server returned error {error.code}")


class ArgumentCheck:
    """Checks arguments against the schema of a tool; references in it do not leave it."""

    def __init__(self, schema: JsonSchema) -> None:
        self._validator: Any = validator_for(schema)(schema, registry=Registry())

    def refusal(self, arguments: dict[str, Any]) -> str:
        """Return why the arguments do not fit; empty if they do."""
        try:
            wrong = schema_errors.best_match(self._validator.iter_errors(arguments))
        except (schema_errors.SchemaError, Unresolvable, schema_errors.UnknownType) as error:
            return f"the schema of the tool is invalid: {one_line(str(error), MAX_ERROR_CHARS)}"
        if wrong is None:
            return ""
        where = ".".join(str(part) for part in wrong.absolute_path)
        return f"{where}: {_cut(wrong.message)}" if where else _cut(wrong.message)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[: MAX_ERROR_CHARS - 1]}…"
