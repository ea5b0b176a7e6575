"""What a model is shown of fleets and constellations: as much as fits, and a note where something is left out.

Everything here is data for a prompt, as lines of JSON. ``<`` is escaped, so that nothing that a device returned can end the
block it stands in.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.profile import AgentProfile, Fleet, JsonSchema, Skill
from asterism.constellation.task import TaskStar

MAX_FLEET = 30_000
MAX_CONSTELLATION = 30_000
MAX_BATCH = 20_000
"""Characters of each part of a prompt."""
MAX_RESULT = 2_000
"""Characters of the result of a task that is asked about."""
MAX_OTHER_RESULT = 200
"""Characters of the result of any other task, of a description, of an input."""
MAX_LINES = 20
"""Dependencies that are shown of one task."""
MAX_TYPE_DEPTH = 4
"""Schemas within each other that are looked into."""
PAGE = 20_000
"""Characters of one page of a constellation that is read by tool."""


def line(value: Any) -> str:
    """A JSON value on one line, safe inside a marked block."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": ")).replace("<", "\\u003c")


def cut(text: str, limit: int) -> str:
    """The text, or its beginning with a note."""
    return text if len(text) <= limit else f"{text[:limit]}… (cut: {len(text)} characters in all)"


def cut_value(value: Any, limit: int) -> Any:
    """A JSON value, or the beginning of its text with a note."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= limit else cut(text, limit)


# -- fleets ----------------------------------------------------------------------------------------


def fleet_lines(fleet: Fleet, limit: int = MAX_FLEET) -> list[str]:
    """One line per device; where they do not fit, first without descriptions, then with the skills' names alone, then fewer."""
    lines: list[str] = []
    for detail in (2, 1, 0):
        lines = [line(_profile(profile, detail)) for profile in fleet.values()]
        if sum(map(len, lines)) <= limit:
            return lines
    return fitting(lines, limit, "devices")


def fitting(lines: Sequence[str], limit: int, what: str) -> list[str]:
    """The first lines that fit, and how many there are in all."""
    shown: list[str] = []
    for it in lines:
        limit -= len(it) + 1
        if limit < 0:
            return [*shown, f"({len(shown)} of {len(lines)} {what} are shown)"]
        shown.append(it)
    return shown


def _profile(profile: AgentProfile, detail: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"device": profile.device_id}
    if detail:
        shown |= {"description": cut(profile.description, MAX_OTHER_RESULT), "capabilities": list(profile.capabilities)}
        shown |= {"aliases": list(profile.aliases), "concurrency": profile.concurrency}
        shown |= {"metadata": cut_value(profile.metadata, MAX_OTHER_RESULT)} if detail > 1 else {}
    if profile.natural_language:
        shown["natural_language"] = "describe the task in words; no skill is needed"
    shown["skills"] = [_skill(skill, detail) for skill in profile.skills] if detail else [skill.name for skill in profile.skills]
    return {name: value for name, value in shown.items() if value not in ("", [], {})}


def _skill(skill: Skill, detail: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": skill.name, "inputs": signature(skill.parameters)}
    if fields := (skill.output or {}).get("properties"):
        shown["result"] = {name: _type(schema, {}) for name, schema in fields.items()}
    if detail > 1 and skill.description:
        shown["description"] = cut(skill.description, MAX_OTHER_RESULT)
    return shown


def signature(schema: JsonSchema) -> dict[str, str]:
    """The properties of an object's schema as ``{name: "type, required"}``."""
    required, defs = schema.get("required", ()), schema.get("$defs", {})
    return {name: _type(it, defs) + (", required" if name in required else "") for name, it in schema.get("properties", {}).items()}


def _type(schema: Any, defs: JsonSchema, depth: int = 0) -> str:
    """The type a schema allows, in a few words; ``defs`` are what its references refer to."""
    if not isinstance(schema, dict) or depth > MAX_TYPE_DEPTH:
        return "any"
    if "enum" in schema:
        return cut(" or ".join(map(str, schema["enum"])), MAX_OTHER_RESULT)
    if "$ref" in schema:
        return _type(defs.get(str(schema["$ref"]).rpartition("/")[2]), defs, depth + 1)
    kinds = schema.get("type") or [_type(it, defs, depth + 1) for it in schema.get("anyOf", ())] or ["any"]
    if kinds == "array" and "items" in schema:
        return f"list of {_type(schema['items'], defs, depth + 1)}"
    if kinds == "object" and depth and schema.get("properties"):
        return f"object of {', '.join(schema['properties'])}"
    return kinds if isinstance(kinds, str) else " or ".join(dict.fromkeys(map(str, kinds)))


# -- constellations --------------------------------------------------------------------------------


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of a constellation.

    Attributes:
        lines: one per task, in the order of creation.
        counts: how many tasks there are of each status.
        whole: whether every task is shown.
    """

    lines: tuple[str, ...]
    counts: dict[str, int]
    whole: bool


def excerpt(constellation: TaskConstellation, batch: Sequence[str] = (), limit: int = MAX_CONSTELLATION) -> Excerpt:
    """The constellation if it fits, else the neighbourhood of the batch: nearest first, as far as it fits."""
    counts = dict(Counter(str(task.status) for task in constellation.tasks.values()))
    lines: dict[str, str] = {}
    for task_id in _nearest_first(constellation, batch):
        found = line(task_view(constellation, constellation.tasks[task_id]))
        limit -= len(found) + 1
        if limit < 0:
            break
        lines[task_id] = found
    shown = tuple(lines[task_id] for task_id in sorted(lines, key=constellation.ordinal))
    return Excerpt(lines=shown, counts=counts, whole=len(shown) == len(constellation.tasks))


def _nearest_first(constellation: TaskConstellation, batch: Sequence[str]) -> Iterable[str]:
    """The batch, then what is one dependency away, and so on; then what cannot be reached, oldest first."""
    near = dict.fromkeys(task_id for task_id in batch if task_id in constellation.tasks)
    edge = list(near)
    while edge:
        around = [
            other
            for task_id in edge
            for other in (*constellation.successors(task_id), *constellation.predecessors(task_id))
            if other not in near
        ]
        edge = list(dict.fromkeys(around))
        near.update(dict.fromkeys(edge))
    return [*near, *(task.task_id for task in constellation.in_order() if task.task_id not in near)]


def task_view(constellation: TaskConstellation, task: TaskStar, max_result: int = MAX_OTHER_RESULT) -> dict[str, Any]:
    """A task as a model sees it."""
    shown: dict[str, Any] = {"task_id": task.task_id, "name": task.name, "device": task.device, "skill": task.skill or task.resolved_skill}
    shown |= {"status": str(task.status), "description": cut(task.description, MAX_OTHER_RESULT)}
    waits_for = constellation.lines_in(task.task_id)
    shown |= {"inputs": cut_value(task.inputs, MAX_OTHER_RESULT), "waits_for": [_line_view(it) for it in waits_for[:MAX_LINES]]}
    shown |= {"waits_for_more": len(waits_for) - MAX_LINES} if len(waits_for) > MAX_LINES else {}
    shown |= {"result": cut_value(task.result, max_result) if task.result is not None else ""}
    shown |= {"error": cut(f"{task.error.code}: {task.error.message}", max_result) if task.error else ""}
    shown |= {"tips": cut(" ".join(task.tips), MAX_OTHER_RESULT), "requires_approval": task.requires_approval or ""}
    if task.constellation is not None:
        shown["constellation"] = f"a plan of its own, {len(task.constellation['tasks'])} tasks"
    return {name: value for name, value in shown.items() if value not in ("", [], {})}


def _line_view(it: Any) -> dict[str, Any]:
    shown = {"dependency": it.line_id, "from": it.source, "type": str(it.type), "condition": it.condition}
    shown |= {"satisfied": it.verdict.satisfied, "reason": cut(it.verdict.reason, MAX_OTHER_RESULT)} if it.verdict else {}
    return {name: value for name, value in shown.items() if value != ""}


def batch_lines(constellation: TaskConstellation, batch: Sequence[str], limit: int = MAX_BATCH) -> list[str]:
    """One line for each task that has ended and is asked about."""
    ended = [constellation.tasks[task_id] for task_id in batch if task_id in constellation.tasks]
    most = max(MAX_OTHER_RESULT, min(MAX_RESULT, limit // (len(ended) or 1)))
    return fitting([line(_ended(task, most)) for task in ended], limit, "tasks that have ended")


def _ended(task: TaskStar, most: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"task_id": task.task_id, "name": task.name, "device": task.device, "status": str(task.status)}
    if task.error:
        return shown | {"error": cut(f"{task.error.code}: {task.error.message}", most)}
    return shown | {"result": cut_value(task.result, most)}


def page(constellation: TaskConstellation, offset: int, limit: int = PAGE) -> str:
    """Tasks from a place in the order of creation on, one a line, marked; and where the next page begins."""
    tasks, offset = constellation.in_order(), max(0, offset)
    lines: list[str] = []
    for task in tasks[offset:]:
        found = line(task_view(constellation, task))
        limit -= len(found) + 1
        if limit < 0:
            break
        lines.append(found)
    end = offset + len(lines)
    told = f"next_offset: {end} (of {len(tasks)} tasks)" if end < len(tasks) else f"that is the end of {len(tasks)} tasks"
    return f"{marked(lines)}\n{told}"


def marked(lines: Sequence[str]) -> str:
    """Lines of data, marked as that."""
    return "\n".join(["<device_output>", *lines, "</device_output>"])
