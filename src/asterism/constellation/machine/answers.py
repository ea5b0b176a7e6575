"""The values of answers about tasks: what an edit of arguments changes, and whether types are right. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from asterism.constellation.machine.events import Dispatch
from asterism.devices.model.references import references
from asterism.engine.control.run_control import Answered
from asterism.engine.kernel.conformance import mismatch
from asterism.engine.kernel.profile import Skill
from asterism.errors import InvalidInput


def edited_arguments(subject: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Return an edit without the arguments of a task that are shown as references to secrets, which stay as they are.

    Raises:
        InvalidInput: it changes such an argument, since answers are journaled; or it gives another one a reference.
    """
    if "task_id" not in subject:
        return value
    secret = {name: it for name, it in subject.get("arguments", {}).items() if next(references(it), None)}
    if changed := [name for name in secret if name in value and value[name] != secret[name]]:
        raise InvalidInput(f"argument {changed[0]} is a secret, and answers are journaled: leave it out, and it stays as it is")
    left = {name: it for name, it in value.items() if name not in secret}
    if referring := [name for name, it in left.items() if next(references(it), None)]:
        raise InvalidInput(
            f"argument {referring[0]} has a reference ${{…}}, and only the arguments shown are approved: give a value, "
            "or leave it out, and it stays as it is"
        )
    return left


def check_types(attempt: Dispatch, skill: Skill, given: Answered) -> None:
    """Check an edit of a task's arguments, or its result, against the types that its skill declares.

    Raises:
        InvalidInput: it has another type; names the argument, or the place in it.
    """
    if given.verb == "edit":
        properties = skill.parameters.get("properties", {})
        for name, value in given.value.items():
            is_changed = name not in attempt.arguments or _text(value) != _text(attempt.arguments[name])
            # The run itself refuses other names; and a task takes the argument that was shown, such as a "3" for a number.
            if name in properties and is_changed and (wrong := mismatch(value, properties[name], skill.parameters)):
                raise InvalidInput(f"{attempt.task_id}.inputs.{name}{wrong[0]}: {skill.name} takes {wrong[1]}")
    if given.verb == "respond" and skill.output is not None and (wrong := mismatch(given.value, skill.output)):
        raise InvalidInput(f"{attempt.task_id}.result{wrong[0]}: {skill.name} returns {wrong[1]}")


def _text(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
