"""The tools of an MCP server as skills. What a server says about itself is text, bounded, and never an instruction."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from asterism.engine.kernel.data import FILE_SCHEMA, one_line
from asterism.engine.kernel.profile import JsonSchema, Skill

MAX_NAME_CHARS = 128
MAX_DESCRIPTION_CHARS = 500
MAX_SCHEMA_BYTES = 16 * 1024
"""Bytes of the schemas of one tool, as JSON."""
MAX_PROFILE_BYTES = 256 * 1024
"""Bytes of all skills of one device, as JSON; the profile is journaled with each run."""
CONTENT_OUTPUT: JsonSchema = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "content": {"type": "array"}, "structured": {}},
    "required": ["text"],
}
"""Result of a tool without an output schema: its text, its other content, and its structured content, if any."""

log = logging.getLogger("asterism.devices")


def skills_of(tools: Sequence[Any], device_id: str, *, allow: Sequence[str], trust_hints: bool) -> tuple[Skill, ...]:
    """Return the tools of a server as skills; a tool that is too large or has no usable name is left out.

    Args:
        tools: the tools, as the SDK has them.
        device_id: the device, for the log.
        allow: names of the tools that become skills; empty for all.
        trust_hints: take a tool that declares itself read-only or idempotent for repeatable.
    """
    skills: dict[str, Skill] = {}
    room = MAX_PROFILE_BYTES
    for tool in tools:
        if allow and tool.name not in allow:
            continue
        skill = _skill(tool, trust_hints=trust_hints)
        size = len(msgspec.json.encode(skill))
        if why := _refusal(skill, size, room, skills):
            log.warning("device %s: the tool %r is left out: %s", device_id, skill.name[:MAX_NAME_CHARS], why)
            continue
        room -= size
        skills[skill.name] = skill
    return tuple(skills.values())


def content_form(schema: Any) -> Literal["base64", "text", ""]:
    """Return how a parameter with this schema takes the content of a file; empty if it takes none."""
    if not isinstance(schema, dict):
        return ""
    if schema.get("type") != "string":
        return next((form for key in ("anyOf", "oneOf") for each in schema.get(key) or () if (form := content_form(each))), "")
    encoding = schema.get("contentEncoding")
    if encoding == "base64" or schema.get("format") in {"base64", "byte"}:
        return "base64"
    return "text" if encoding is None and isinstance(schema.get("contentMediaType"), str) else ""


def _with_files(schema: JsonSchema) -> JsonSchema:
    """Return the schema of a tool in which a parameter that takes the content of a file takes a file as well."""
    properties = schema.get("properties")
    named = {name: it for name, it in properties.items() if content_form(it)} if isinstance(properties, dict) else {}
    either = {name: {"anyOf": [it, FILE_SCHEMA], "description": str(it.get("description", ""))} for name, it in named.items()}
    return {**schema, "properties": {**properties, **either}} if isinstance(properties, dict) and either else schema


def _skill(tool: Any, *, trust_hints: bool) -> Skill:
    hints = tool.annotations
    return Skill(
        name=tool.name,
        description=one_line(tool.description or tool.title or "", MAX_DESCRIPTION_CHARS),
        parameters=_with_files(tool.input_schema),
        output=CONTENT_OUTPUT if tool.output_schema is None else tool.output_schema,
        idempotent=bool(trust_hints and hints and (hints.read_only_hint or hints.idempotent_hint)),
        is_harmless=bool(trust_hints and hints and (hints.read_only_hint or hints.destructive_hint is False)),
    )


def _refusal(skill: Skill, size: int, room: int, skills: dict[str, Skill]) -> str:
    if not skill.name or len(skill.name) > MAX_NAME_CHARS or not skill.name.isprintable() or " " in skill.name:
        return "it has no usable name"
    if skill.name in skills:
        return "another tool has its name"
    if len(msgspec.json.encode([skill.parameters, skill.output])) > MAX_SCHEMA_BYTES:
        return f"its schemas have more than {MAX_SCHEMA_BYTES:,} bytes"
    return f"the skills of a device have at most {MAX_PROFILE_BYTES:,} bytes" if size > room else ""
