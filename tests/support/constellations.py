"""Builders of small constellations for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from asterism.constellation.model.batch import apply_edits
from asterism.constellation.model.condition import Condition
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.edits import Applied, parse_action
from asterism.constellation.model.line import DependencyType, evaluate
from asterism.constellation.model.task import TaskStatus

SEEDS = Path(__file__).parents[1] / "seeds"
"""Example replies in JSON."""
SEVEN = (
    "build_constellation",
    "add_task",
    "remove_task",
    "update_task",
    "add_dependency",
    "remove_dependency",
    "update_dependency",
)
"""Names of the edits, in the order of the editor's tools."""
TYPES = {str(kind) for kind in DependencyType}


def seed(name: str) -> dict[str, Any]:
    """Return one of the example replies."""
    found: dict[str, Any] = json.loads((SEEDS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def tasks(ids: str, **fields: Any) -> list[dict[str, Any]]:
    """Return tasks from ``"a b c"``, on device ``d``."""
    return [{"task_id": task_id, "device": "d", **fields} for task_id in ids.split()]


def lines(arrows: str) -> list[dict[str, Any]]:
    """Return dependencies from ``"a>b b>c:UNCONDITIONAL"``; anything but a type is a condition."""
    found: list[dict[str, Any]] = []
    for arrow in arrows.split():
        ends, _, kind = arrow.partition(":")
        source, _, target = ends.partition(">")
        kind_or_condition = {"type" if kind in TYPES else "condition": kind} if kind else {}
        found.append({"from": source, "to": target, **kind_or_condition})
    return found


def plan(ids: str, arrows: str = "", **fields: Any) -> dict[str, Any]:
    """Return a plan document."""
    return {"tasks": tasks(ids, **fields), "dependencies": lines(arrows)}


def constellation(ids: str, arrows: str = "", **fields: Any) -> TaskConstellation:
    """Return a constellation of these tasks and dependencies."""
    return TaskConstellation.from_dict(plan(ids, arrows, **fields))


def action(tool: str, **parameters: Any) -> dict[str, Any]:
    """Return an action as a model writes it; ``from_`` stands for ``from``."""
    return {"tool": tool, "parameters": {key.rstrip("_"): value for key, value in parameters.items()}}


def edit(it: TaskConstellation, *actions: dict[str, Any]) -> Applied:
    """Apply actions as one batch."""
    return apply_edits(it, [parse_action(one) for one in actions])


def end(it: TaskConstellation, task_id: str, status: TaskStatus = TaskStatus.COMPLETED, result: Any = None) -> None:
    """Settle a task, and evaluate the dependencies on it."""
    it.tasks[task_id].status, it.tasks[task_id].result = status, result
    it.source_settled(task_id)
    judge_all(it)


def judge_all(it: TaskConstellation) -> None:
    """Evaluate all unevaluated dependencies."""
    for line_id in tuple(it.unevaluated):
        line = it.lines[line_id]
        asked = Condition(line.condition).task_ids if line.condition else ()
        facts = {task_id: {"status": str(it.tasks[task_id].status), "result": it.tasks[task_id].result} for task_id in asked}
        it.set_evaluation(line_id, evaluate(line, it.tasks[line.source], facts))
    it.dirty.clear()


def ready(it: TaskConstellation) -> list[str]:
    """Return the ids of the tasks that can start."""
    return [task.task_id for task in it.in_order() if task.editable and it.is_ready(task.task_id)]


def shape(it: TaskConstellation) -> dict[str, Any]:
    """Return the content of a plan without the version, the tombstones and the order of creation."""
    found = it.to_dict()
    names: Iterable[str] = ("constellation_id", "name", "generation")
    return {key: found[key] for key in names} | {
        "tasks": {task["task_id"]: task for task in found["tasks"]},
        "dependencies": {line["id"]: line for line in found["dependencies"]},
    }
