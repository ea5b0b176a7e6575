"""Rows, and fields of rows, that the view of a constellation makes from its memory."""

from __future__ import annotations

from typing import Any

from asterism.constellation.machine.memory import NAMED, AwaitingApproval, AwaitingPlanner, ConstellationMemory, Deferred
from asterism.constellation.model.line import TaskStarLine


def line_row(line: TaskStarLine) -> dict[str, Any]:
    """Return the row of a dependency."""
    verdict = line.verdict
    return {
        "from": line.source,
        "to": line.target,
        "type": str(line.type),
        "condition": line.condition or None,
        "satisfied": verdict.satisfied if verdict else None,
        "reason": (str(verdict.reason) or None) if verdict else None,
    }


def deciding(memory: ConstellationMemory) -> dict[str, Any] | None:
    """Return the pending decision about the constellation: who decides, and the first of the tasks it is about."""
    planning = memory.planning
    match planning:
        case AwaitingPlanner() | AwaitingApproval():
            by = "planner" if isinstance(planning, AwaitingPlanner) else "person"
            return {
                "by": by,
                "effect": planning.effect_id,
                "about": [*planning.request.batch[:NAMED]],
                "tasks": len(planning.request.batch),
            }
        case Deferred(request=request):
            return {"by": "nobody yet", "effect": None, "about": [*request.batch[:NAMED]], "tasks": len(request.batch)}
        case _:
            return None
