"""Excerpts of fleets and constellations for a prompt: as much as fits, with notes of omissions.

Everything here is data for a prompt, as lines of JSON. ``<`` is escaped, so that device output
cannot end its block.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.fan_out import items_words
from asterism.constellation.model.task import TaskStar
from asterism.engine.kernel.profile import AgentProfile, Fleet, JsonSchema, Skill

MAX_FLEET = 30_000
MAX_CONSTELLATION = 30_000
MAX_BATCH = 20_000
"""Maximum characters of each part of a prompt."""
MAX_RESULT = 2_000
"""Maximum characters of the result of a task in the batch."""
MAX_OTHER_RESULT = 200
"""Maximum characters of the result of any other task, of a description, of an input."""
MAX_LINES = 20
"""Maximum dependencies shown of one task."""
MAX_TYPE_DEPTH = 4
"""Maximum nesting of schemas that a signature describes."""
PAGE = 20_000
"""Maximum characters of one page of ``read_tasks``."""


def line(value: Any) -> str:
    """Return a JSON value on one line, safe inside a marked block."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": ")).replace("<", "\\u003c")


def cut(text: str, limit: int) -> str:
    """Return the text, or its beginning with a note."""
    return text if len(text) <= limit else f"{text[:limit]}… (cut: {len(text)} characters in all)"


def cut_value(value: Any, limit: int) -> Any:
    """Return a JSON value, or the beginning of its text with a note."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= limit else cut(text, limit)


# -- fleets ----------------------------------------------------------------------------------------


def fleet_lines(fleet: Fleet) -> list[str]:
    """Return one line per device.

    If the lines do not fit, they lose descriptions, then all but the skills' names; then devices.
    """
    lines: list[str] = []
    for detail in (2, 1, 0):
        lines = [line(_profile(profile, detail)) for profile in fleet.values()]
        if sum(map(len, lines)) <= MAX_FLEET:
            return lines
    return fitting(lines, MAX_FLEET, "devices")


def fitting(lines: Sequence[str], limit: int, what: str) -> list[str]:
    """Return the first lines that fit, and a note with the number of all lines."""
    shown = list(_first(lines, limit))
    return shown if len(shown) == len(lines) else [*shown, f"({len(shown)} of {len(lines)} {what} are shown)"]


def _first(lines: Iterable[str], limit: int) -> Iterator[str]:
    """Yield the lines until one does not fit."""
    for it in lines:
        limit -= len(it) + 1
        if limit < 0:
            return
        yield it


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
    """Return the properties of an object's schema as ``{name: "type, required"}``."""
    required, defs = schema.get("required", ()), schema.get("$defs", {})
    return {name: _type(it, defs) + (", required" if name in required else "") for name, it in schema.get("properties", {}).items()}


def _type(schema: Any, defs: JsonSchema, depth: int = 0) -> str:
    """Return the type of a schema in a few words; ``defs`` resolves its references."""
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
    """The part of a constellation that a prompt shows.

    Attributes:
        lines: one per task, in the order of creation.
        counts: the number of tasks by status.
        whole: True if the lines show every task.
    """

    lines: tuple[str, ...]
    counts: dict[str, int]
    whole: bool


def excerpt(constellation: TaskConstellation, batch: Sequence[str] = ()) -> Excerpt:
    """Return the constellation if it fits, else the tasks nearest to the batch that fit."""
    counts = dict(Counter(str(task.status) for task in constellation.in_order()))
    order = _nearest_first(constellation, batch)
    lines = _first((line(task_view(constellation, constellation.tasks[task_id])) for task_id in order), MAX_CONSTELLATION)
    fit = dict(zip(order, lines, strict=False))
    shown = tuple(fit[task_id] for task_id in sorted(fit, key=constellation.ordinal))
    return Excerpt(lines=shown, counts=counts, whole=len(shown) == len(constellation.tasks) - constellation.item_count)


def _nearest_first(constellation: TaskConstellation, batch: Sequence[str]) -> list[str]:
    """Return the batch, then tasks one dependency away, and so on; then the rest, oldest first."""
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


def task_view(constellation: TaskConstellation, task: TaskStar) -> dict[str, Any]:
    """Return a task as a prompt shows it."""
    shown: dict[str, Any] = {"task_id": task.task_id, "name": task.name, "device": task.device, "skill": task.skill or task.resolved_skill}
    shown |= {"status": str(task.status), "description": cut(task.description, MAX_OTHER_RESULT)}
    waits_for = constellation.lines_in(task.task_id)
    shown |= {"inputs": cut_value(task.inputs, MAX_OTHER_RESULT), "waits_for": [_line_view(it) for it in waits_for[:MAX_LINES]]}
    shown |= {"waits_for_more": len(waits_for) - MAX_LINES} if len(waits_for) > MAX_LINES else {}
    shown |= {"result": cut_value(task.result, MAX_OTHER_RESULT) if task.result is not None else ""}
    shown |= {"error": cut(f"{task.error.code}: {task.error.words}", MAX_OTHER_RESULT) if task.error else ""}
    shown |= {"tips": cut(" ".join(task.tips), MAX_OTHER_RESULT), "requires_approval": task.requires_approval or ""}
    if task.constellation is not None:
        shown["constellation"] = f"a plan of its own, {len(task.constellation['tasks'])} tasks"
    if task.wait is not None:
        shown["wait"] = msgspec.to_builtins(task.wait)
    if task.for_each is not None:
        each = msgspec.to_builtins(task.for_each)
        shown |= {"for_each": cut_value(each, MAX_OTHER_RESULT), "items": items_words(task.items) if task.items else ""}
    return {name: value for name, value in shown.items() if value not in ("", [], {})}


def _line_view(it: Any) -> dict[str, Any]:
    shown = {"dependency": it.line_id, "from": it.source, "type": str(it.type), "condition": it.condition}
    shown |= {"satisfied": it.verdict.satisfied, "reason": cut(str(it.verdict.reason), MAX_OTHER_RESULT)} if it.verdict else {}
    return {name: value for name, value in shown.items() if value != ""}


def batch_lines(constellation: TaskConstellation, batch: Sequence[str]) -> list[str]:
    """Return one line for each task of the batch."""
    ended = [constellation.tasks[task_id] for task_id in batch if task_id in constellation.tasks]
    most = max(MAX_OTHER_RESULT, min(MAX_RESULT, MAX_BATCH // (len(ended) or 1)))
    return fitting([line(_ended(task, most)) for task in ended], MAX_BATCH, "tasks that have ended")


def _ended(task: TaskStar, most: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"task_id": task.task_id, "name": task.name, "device": task.device, "status": str(task.status)}
    if task.error:
        return shown | {"error": cut(f"{task.error.code}: {task.error.words}", most)}
    return shown | {"result": cut_value(task.result, most)}


def page(constellation: TaskConstellation, offset: int) -> str:
    """Return tasks from an offset in the order of creation, one per line, and the next offset."""
    tasks, offset = constellation.in_order(), max(0, offset)
    lines = list(_first((line(task_view(constellation, task)) for task in tasks[offset:]), PAGE))
    end = offset + len(lines)
    footer = f"next_offset: {end} (of {len(tasks)} tasks)" if end < len(tasks) else f"that is the end of {len(tasks)} tasks"
    return f"{marked(lines)}\n{footer}"


def marked(lines: Sequence[str]) -> str:
    """Return lines inside the markers of device output."""
    return "\n".join(["<device_output>", *lines, "</device_output>"])
