"""The values of answers: which secrets they may not have, and what an edit of arguments changes."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.constellation.references import references
from asterism.errors import InvalidInput
from asterism.runtime.ports.store import InquiryRow


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


def edited_arguments(asked: InquiryRow, value: dict[str, Any]) -> dict[str, Any]:
    """Return an edit without the arguments of a task that are shown as references to secrets, which stay as they are.

    Raises:
        InvalidInput: it changes such an argument; answers are journaled.
    """
    subject = msgspec.json.decode(asked.subject or "{}")
    if "task_id" not in subject:
        return value
    secret = {name: it for name, it in subject.get("arguments", {}).items() if next(references(it), None)}
    if changed := [name for name in secret if name in value and value[name] != secret[name]]:
        raise InvalidInput(f"argument {changed[0]} is a secret, and answers are journaled: leave it out, and it stays as it is")
    return {name: it for name, it in value.items() if name not in secret}
