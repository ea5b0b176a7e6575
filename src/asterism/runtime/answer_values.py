"""The values of answers: which secrets they may not have, and what an edit of arguments changes."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.constellation.profile import Skill
from asterism.constellation.references import references
from asterism.errors import InvalidInput
from asterism.kernel.file_value import is_file
from asterism.runtime.ports.store import InquiryRow

_KINDS: dict[type, tuple[str, ...]] = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}
"""The types of JSON Schema of a JSON value."""


def check_no_secret(asked: InquiryRow, value: Any) -> None:
    """Check that an answer has no property that the schema of its question forbids (``false``): a secret.

    Raises:
        InvalidInput: it has one.
    """
    if not asked.schema or not isinstance(value, dict):
        return
    properties = msgspec.json.decode(asked.schema).get("properties", {})
    if secret := [name for name in value if properties.get(name) is False]:
        raise InvalidInput(
            f"{asked.inquiry_id} asks for a secret ({', '.join(secret)}), and answers are journaled; type it in the conversation"
        )


def task_of(asked: InquiryRow) -> dict[str, Any] | None:
    """Return the subject of a question about a task: its ``device``, ``skill`` and ``arguments``; None for any other question."""
    subject: dict[str, Any] = msgspec.json.decode(asked.subject or "{}")
    return subject if "task_id" in subject else None


def edited_arguments(task: dict[str, Any], value: dict[str, Any], skill: Skill | None) -> dict[str, Any]:
    """Return an edit without the arguments of a task that are shown as references to secrets, which stay as they are.

    Args:
        task: the subject of the question.
        value: the edit.
        skill: the skill of the task; None if it is not known.

    Raises:
        InvalidInput: it changes such an argument, since answers are journaled; or it gives a value of another type, which
            would fail the task.
    """
    secret = {name: it for name, it in task.get("arguments", {}).items() if next(references(it), None)}
    if changed := [name for name in secret if name in value and value[name] != secret[name]]:
        raise InvalidInput(f"argument {changed[0]} is a secret, and answers are journaled: leave it out, and it stays as it is")
    properties = skill.parameters.get("properties", {}) if skill else {}
    for name, given in value.items():
        kinds, kind = _kinds_of(properties.get(name)), _KINDS.get(type(given))
        if kinds and kind and not is_file(given) and not set(kinds) & set(kind):
            raise InvalidInput(f"argument {name} takes {' or '.join(kinds)}, not {kind[0]}")
    return {name: it for name, it in value.items() if name not in secret}


def _kinds_of(schema: Any) -> list[str]:
    """Return the types that a schema allows; empty if it does not say so in ``type`` or ``anyOf``."""
    choices = schema.get("anyOf", [schema]) if isinstance(schema, dict) else []
    kinds = [it.get("type") if isinstance(it, dict) else None for it in choices]
    return [it for it in kinds if isinstance(it, str)] if all(isinstance(it, str) for it in kinds) else []
