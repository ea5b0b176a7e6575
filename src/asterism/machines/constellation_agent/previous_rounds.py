"""Bounded context for a planner: earlier rounds of the session, archived generations of the run.

Long results are cut here, with a note; whole results are in the journals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from asterism.machines.constellation_agent.memory import ConstellationMemory

MAX_ROUNDS = 5
"""Number of earlier rounds and, separately, of archived generations; the newest ones."""
MAX_TASKS = 100
"""Number of tasks in each of them."""
MAX_TEXT = 500
"""Characters of one result, as JSON, or of one error."""


def previous_rounds_of(memory: ConstellationMemory) -> tuple[dict[str, Any], ...]:
    """Return the session's earlier rounds, then this run's archived generations, oldest first."""
    return (*memory.previous_rounds[-MAX_ROUNDS:], *(digest(archived) for archived in memory.archive[-MAX_ROUNDS:]))


def round_of(run_id: str, memory: ConstellationMemory) -> dict[str, Any]:
    """Return a run as an earlier round of another one.

    The round is ``{run, request, outcome, summary}`` and a digest of the last constellation.
    """
    head = {"run": run_id, "request": memory.request, "outcome": memory.outcome(), "summary": memory.result()["summary"]}
    return head | digest(memory.constellation.to_dict())


def digest(constellation: Mapping[str, Any]) -> dict[str, Any]:
    """Return a constellation in short.

    Args:
        constellation: as ``TaskConstellation.to_dict`` returns it.

    Returns:
        ``{generation, name, tasks: [{task_id, name, device, status, result, error}], dependencies:
            [{from, to}], left_out}``; ``left_out`` counts the tasks beyond ``MAX_TASKS``.
    """
    tasks = constellation["tasks"][:MAX_TASKS]
    listed = {task["task_id"] for task in tasks}
    pairs = [{"from": line["from"], "to": line["to"]} for line in constellation["dependencies"]]
    return {
        "generation": constellation["generation"],
        "name": constellation["name"],
        "tasks": [_task(task) for task in tasks],
        "dependencies": [pair for pair in pairs if pair["from"] in listed and pair["to"] in listed],
        "left_out": len(constellation["tasks"]) - len(tasks),
    }


def _task(task: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: task[name] for name in ("task_id", "name", "device", "status") if task.get(name)}
    if task.get("result") is not None:
        found["result"] = _cut(task["result"])
    if task.get("error"):
        found["error"] = task["error"]["message"][:MAX_TEXT]
    return found


def _cut(result: Any) -> Any:
    text = msgspec.json.encode(result).decode()
    return result if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text)} characters in all)"
