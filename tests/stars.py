"""Constellations for tests, written as short as they can be."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from asterism.constellation.batch import apply_edits
from asterism.constellation.condition import Condition
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.edits import Applied, parse_action
from asterism.constellation.line import DependencyType, evaluate
from asterism.constellation.task import TaskStatus

SEEDS = Path(__file__).parent / "seeds"
"""JSON of the seeds, verbatim."""
SEVEN = (
    "build_constellation",
    "add_task",
    "remove_task",
    "update_task",
    "add_dependency",
    "remove_dependency",
    "update_dependency",
)
"""The edits, in the order in which the editor lists its tools."""
TYPES = {str(kind) for kind in DependencyType}


def seed(name: str) -> dict[str, Any]:
    """One of the seeds' replies."""
    found: dict[str, Any] = json.loads((SEEDS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def tasks(ids: str, **fields: Any) -> list[dict[str, Any]]:
    """Tasks ``"a b c"`` on device ``d``."""
    return [{"task_id": task_id, "device": "d", **fields} for task_id in ids.split()]


def lines(arrows: str) -> list[dict[str, Any]]:
    """Dependencies ``"a>b b>c:UNCONDITIONAL"``; a type that is no type is a condition."""
    found: list[dict[str, Any]] = []
    for arrow in arrows.split():
        ends, _, kind = arrow.partition(":")
        source, _, target = ends.partition(">")
        said = {"type" if kind in TYPES else "condition": kind} if kind else {}
        found.append({"from": source, "to": target, **said})
    return found


def plan(ids: str, arrows: str = "", **fields: Any) -> dict[str, Any]:
    """A plan document."""
    return {"tasks": tasks(ids, **fields), "dependencies": lines(arrows)}


def constellation(ids: str, arrows: str = "", **fields: Any) -> TaskConstellation:
    """A constellation of those tasks and dependencies."""
    return TaskConstellation.from_dict(plan(ids, arrows, **fields))


def action(tool: str, **parameters: Any) -> dict[str, Any]:
    """An action as a model writes it; ``from_`` is ``from``."""
    return {"tool": tool, "parameters": {key.rstrip("_"): value for key, value in parameters.items()}}


def edit(it: TaskConstellation, *actions: dict[str, Any]) -> Applied:
    """Apply actions as one batch."""
    return apply_edits(it, [parse_action(one) for one in actions])


def end(it: TaskConstellation, task_id: str, status: TaskStatus = TaskStatus.COMPLETED, result: Any = None) -> None:
    """Settle a task by hand, and judge what waits for it."""
    it.tasks[task_id].status, it.tasks[task_id].result = status, result
    it.source_settled(task_id)
    judge_all(it)


def judge_all(it: TaskConstellation) -> None:
    """Give every dependency that wants one its verdict."""
    for line_id in tuple(it.unevaluated):
        line = it.lines[line_id]
        asked = Condition(line.condition).task_ids if line.condition else ()
        facts = {task_id: {"status": str(it.tasks[task_id].status), "result": it.tasks[task_id].result} for task_id in asked}
        it.set_evaluation(line_id, evaluate(line, it.tasks[line.source], facts))
    it.dirty.clear()


def ready(it: TaskConstellation) -> list[str]:
    """Ids of the tasks that can start."""
    return [task.task_id for task in it.ready_tasks()]


def shape(it: TaskConstellation) -> dict[str, Any]:
    """Everything that a plan says: all but the version, the tombstones and the order of creation."""
    found = it.to_dict()
    kept: Iterable[str] = ("constellation_id", "name", "generation")
    return {key: found[key] for key in kept} | {
        "tasks": {task["task_id"]: task for task in found["tasks"]},
        "dependencies": {line["id"]: line for line in found["dependencies"]},
    }
