"""The seven edits as tools, and a tool for a batch of them, described for a model from the types that parse them.

The MCP server that offers them is in ``editor``; ``parse_action`` validates the arguments.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from asterism.constellation.model.documents import LineSpec, PlanDocument
from asterism.constellation.model.edits import MAX_EDITS
from asterism.constellation.model.task import TaskSpec


class EditTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the editor: its name, its description and the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


_WORDS = {
    "build_constellation": "Build the constellation from a whole plan, in place of what is there; with clear=false, merge the plan into "
    "what is there. With clear=false this also adds several tasks and dependencies at once: use it where a task's inputs refer to others.",
    "add_task": "Add a task. It waits for nothing until dependencies are added.",
    "remove_task": "Remove a task that has not started, with its dependencies.",
    "update_task": "Change the given fields of a task that has not started; the others stay.",
    "add_dependency": "Let one task wait for another. The one that waits must not have started.",
    "remove_dependency": "Remove a dependency.",
    "update_dependency": "Change the type or the condition of a dependency. A condition alone makes it CONDITIONAL.",
}

_BATCH_WORDS = (
    "Apply several edits as one: all of them, or none. Nothing starts in between, so a new task waits for its dependencies from the start. "
    "A refusal has the index of the edit that causes it."
)
BATCH_TOOL = "apply_edits"
"""Tool that applies several edits as a whole."""

_TASK_ID = {"type": "string", "description": "Id of the task."}
_LINE_ID = {"type": "string", "description": "Id of the dependency; from->to unless it was given another."}


@functools.cache
def edit_tools() -> tuple[EditTool, ...]:
    """Return the seven tools; built once and read-only."""
    kinds = (TaskSpec, LineSpec, PlanDocument)
    _, found = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for kind in kinds:
        found[kind.__name__].pop("description", None)  # python -OO strips docstrings
        for name, shown in found[kind.__name__]["properties"].items():
            if "$ref" in shown:
                description = found["RetryPolicy"]["description"] = shown.pop("description")
                found[kind.__name__]["properties"][name] = {"anyOf": [shown], "description": description}
    task, line, plan = (found[kind.__name__]["properties"] for kind in kinds)
    clear = {"type": "boolean", "default": True, "description": "In place of what is there; false merges the plan into it."}
    unset = {name: {key: value for key, value in it.items() if key != "default"} for name, it in task.items()}

    def takes(properties: dict[str, Any], *required: str) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
            **_defs(properties, found),
        }

    schemas = {
        "build_constellation": takes({**plan, "clear": clear}, "tasks"),
        "add_task": takes(task, "task_id"),
        "remove_task": takes({"task_id": _TASK_ID}, "task_id"),
        "update_task": takes({**unset, "task_id": _TASK_ID}, "task_id"),
        "add_dependency": takes(line, "from", "to"),
        "remove_dependency": takes({"dependency_id": _LINE_ID}, "dependency_id"),
        "update_dependency": takes(
            {"dependency_id": _LINE_ID, "type": {**line["type"], "default": None}, "condition": line["condition"]}, "dependency_id"
        ),
    }
    return tuple(EditTool(name=name, description=_WORDS[name], schema=schema) for name, schema in schemas.items())


@functools.cache
def batch_tool() -> EditTool:
    """Return the tool for a batch of edits, whose schema names each edit as its own tool does."""
    found: dict[str, Any] = {}
    choices = []
    for tool in edit_tools():
        parameters = dict(tool.schema)
        found |= parameters.pop("$defs", {})
        given = {"tool": {"const": tool.name}, "parameters": parameters}
        choices.append({"type": "object", "properties": given, "required": ["tool", "parameters"], "additionalProperties": False})
    actions = {
        "type": "array",
        "items": {"anyOf": choices},
        "minItems": 1,
        "maxItems": MAX_EDITS,
        "description": "The edits in order. Each has the name of a tool and its parameters.",
    }
    properties = {"actions": actions}
    schema = {"type": "object", "properties": properties, "required": ["actions"], "additionalProperties": False, "$defs": found}
    return EditTool(name=BATCH_TOOL, description=_BATCH_WORDS, schema=schema)


def _defs(properties: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions that properties refer to, directly or through other definitions."""
    used: dict[str, Any] = {}
    text = json.dumps(properties)
    while more := [name for name in found if name not in used and f'"#/$defs/{name}"' in text]:  # bounded: each round adds at least one
        used.update({name: found[name] for name in more})
        text = json.dumps(used)
    return {"$defs": used} if used else {}
