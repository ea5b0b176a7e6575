"""TaskStarLine: a dependency between two tasks, and the truth table that evaluates it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from asterism.constellation.model.condition import NOTHING, Condition, Facts
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.engine.kernel.phrase import Text, phrase


class DependencyType(StrEnum):
    """The kinds of dependencies, by the required end of their source."""

    UNCONDITIONAL = "UNCONDITIONAL"
    SUCCESS_ONLY = "SUCCESS_ONLY"
    COMPLETION_ONLY = "COMPLETION_ONLY"
    CONDITIONAL = "CONDITIONAL"


class Evaluation(msgspec.Struct, frozen=True, gc=False):
    """The result of evaluating a dependency, with a reason if it is not satisfied."""

    satisfied: bool
    reason: Text = ""


class TaskStarLine(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """A dependency: ``source`` must end as ``type`` requires before ``target`` may start.

    Attributes:
        line_id: id, unique in the constellation; ``source->target`` unless the plan names it.
        source: id of the predecessor (``from`` in documents).
        target: id of the waiting task (``to`` in documents).
        type: required end of the source.
        condition: CEL text over the source's result; for CONDITIONAL only.
        verdict: its evaluation; None until the source has ended.
        excuses_nothing: True if a planner wrote it or its target after the source had failed, for other work
            than that of the source: a target that completes does not handle the failure.
    """

    line_id: str = msgspec.field(name="id")
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    type: DependencyType = DependencyType.SUCCESS_ONLY
    condition: str = ""
    verdict: Evaluation | None = None
    excuses_nothing: bool = False


_SATISFIED = Evaluation(satisfied=True)
_COMPLETED, _FAILED = TaskStatus.COMPLETED, TaskStatus.FAILED
_SKIPPED, _CANCELLED = TaskStatus.SKIPPED, TaskStatus.CANCELLED

TRUTH_TABLE: dict[DependencyType, dict[TaskStatus, bool]] = {
    DependencyType.UNCONDITIONAL: {_COMPLETED: True, _FAILED: True, _SKIPPED: True, _CANCELLED: True},
    DependencyType.SUCCESS_ONLY: {_COMPLETED: True, _FAILED: False, _SKIPPED: False, _CANCELLED: False},
    DependencyType.COMPLETION_ONLY: {_COMPLETED: True, _FAILED: True, _SKIPPED: False, _CANCELLED: False},
}
"""For each type and settled status of the source, whether the dependency is satisfied. CONDITIONAL
uses its condition."""


def admits_failure(line: TaskStarLine) -> bool:
    """Return True if a dependency can be satisfied by a source that has failed."""
    if line.type is DependencyType.CONDITIONAL:
        return Condition(line.condition).refers_to_status
    return TRUTH_TABLE[line.type][_FAILED]


def evaluate(line: TaskStarLine, source: TaskStar, ancestors: Facts, params: Mapping[str, Any] = NOTHING) -> Evaluation:
    """Evaluate a dependency whose source has ended.

    ``ancestors`` are those of the target; they may be empty if the condition names none. ``params`` are
    the values of the plan's parameters. A condition that cannot be evaluated is not satisfied, with the error as reason.
    """
    if line.type is not DependencyType.CONDITIONAL:
        if TRUTH_TABLE[line.type][source.status]:
            return _SATISFIED
        return Evaluation(satisfied=False, reason=phrase("task_is", task=source.task_id, status=source.status))
    condition = Condition(line.condition)
    if source.status is _COMPLETED or (source.status is _FAILED and condition.refers_to_status):
        met, reason = condition.evaluate(source.result, source.status, ancestors, params)
        return Evaluation(met, reason)
    return Evaluation(satisfied=False, reason=phrase("task_is", task=source.task_id, status=source.status))


def named_by(line: TaskStarLine) -> list[str]:
    """Return the ids of the tasks that a dependency's condition names, without its source."""
    return sorted(Condition(line.condition).task_ids - {line.source}) if "tasks" in line.condition else []
