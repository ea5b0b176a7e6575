"""The values of a call of an MCP tool: its file arguments, its end as the end of an attempt, and checks against JSON Schemas.

File arguments are sent by content where a schema says so, and content that is returned becomes files.

A check has a bounded number of steps. A few lines of schema can double the work with every level
(``allOf`` with the same reference twice), refer to themselves, or compare each item with each other,
and would block this process meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import mcp_types
import msgspec
from mcp import MCPError

from asterism.devices.attempts.attempt_files import CURRENT, AttemptFiles, chunks_of
from asterism.devices.kinds.mcp.tools import CONTENT_OUTPUT, content_form
from asterism.devices.kinds.remote import SentFiles
from asterism.devices.model.attempt import ErrorCode
from asterism.devices.port import Attempt, AttemptError, AttemptResult
from asterism.engine.kernel.conformance import mismatch_text
from asterism.engine.kernel.data import files_in, is_file, one_line, safe_name
from asterism.engine.kernel.profile import JsonSchema, Skill
from asterism.errors import InvalidInput

MAX_LINKS = 20
"""Links of a result that are read."""
READ_S = 60.0
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


async def with_contents(attempt: Attempt, parameters: JsonSchema) -> Attempt:
    """Return an attempt whose file arguments are their contents, as the schema of the tool declares them.

    Raises:
        AttemptError: ``bad_arguments`` if the tool takes no file there; or one is too large, missing, damaged, or of another run.
    """
    arguments, sent = dict(attempt.arguments), SentFiles(attempt.device_id)
    for argument, value in attempt.arguments.items():
        for nested in files_in(value):
            name = safe_name(nested.get("name"))
            form = content_form(parameters.get("properties", {}).get(argument)) if is_file(value) else ""
            if not form:
                how = 'it takes one if its schema has "contentEncoding": "base64", or "contentMediaType" for a text'
                raise _refused(f"file {name}: argument {argument} of {attempt.skill} takes no file; {how}")
            content = await sent.content(nested)
            arguments[argument] = base64.b64encode(content).decode() if form == "base64" else _text(content, name, argument)
    return msgspec.structs.replace(attempt, arguments=arguments)


async def stored_content(parts: Sequence[mcp_types.ContentBlock], session: Any) -> list[Any]:
    """Return the parts of a result other than texts as JSON: each content as the value of a file.

    A link is read through the session. It stays a link if the server does not give its content.

    Raises:
        AttemptError: ``bad_result`` if a content is not base64, or is too large.
    """
    found, files, links = [], CURRENT.get(), 0
    for part in parts:
        if part.type == "text":
            continue
        links += part.type == "resource_link"
        value = await _stored(part, session, files) if files and links <= MAX_LINKS else None
        found.append(value or part.model_dump(mode="json", by_alias=True, exclude_none=True))
    return found


async def _stored(part: mcp_types.ContentBlock, session: Any, files: AttemptFiles) -> dict[str, Any] | None:
    """Return the value of a part that is a file now; None for a link that cannot be read."""
    if isinstance(part, mcp_types.ImageContent | mcp_types.AudioContent):
        name = part.type + (mimetypes.guess_extension(part.mime_type) or "")
        return await _put(files, name, part.data, part.mime_type)
    resource = await _read(part, session) if isinstance(part, mcp_types.ResourceLink) else getattr(part, "resource", None)
    if resource is None:
        return None
    name = unquote(resource.uri.partition("?")[0].rstrip("/").rpartition("/")[2]) or "file"
    content = resource.blob if isinstance(resource, mcp_types.BlobResourceContents) else resource.text.encode()
    return await _put(files, name, content, resource.mime_type or getattr(part, "mime_type", None) or "")


async def _read(link: mcp_types.ResourceLink, session: Any) -> Any:
    try:
        async with asyncio.timeout(READ_S):
            contents = (await session.read_resource(link.uri)).contents
    except Exception:  # boundary: the server may answer anything, also that it has no such resource; the link stays
        return None
    return contents[0] if len(contents) == 1 else None


async def _put(files: AttemptFiles, name: str, content: str | bytes, media_type: str) -> dict[str, Any]:
    try:
        data = content if isinstance(content, bytes) else base64.b64decode(content, validate=True)
        return await files.put(name, chunks_of(data), media_type)
    except binascii.Error as error:
        raise AttemptError("bad_result", f"file {safe_name(name)}: its content is not base64: {error}") from error
    except InvalidInput as error:
        raise AttemptError("bad_result", str(error)) from error


def _text(content: bytes, name: str, argument: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _refused(f"file {name}: argument {argument} takes a text, and this is none in UTF-8") from None


def _refused(message: str) -> AttemptError:
    return AttemptError("bad_arguments", message)
