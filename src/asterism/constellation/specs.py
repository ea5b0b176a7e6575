"""New tasks and dependencies, as a plan or an edit specifies them."""

from __future__ import annotations

import msgspec

from asterism.constellation.condition import Condition
from asterism.constellation.documents import LineSpec, TaskSpec
from asterism.constellation.line import DependencyType, TaskStarLine
from asterism.constellation.task import TaskStar, TaskStatus
from asterism.errors import InvalidInput


def task_of(spec: TaskSpec) -> TaskStar:
    """Return a new task as specified, waiting until its dependencies have been checked."""
    return TaskStar(status=TaskStatus.WAITING_DEPENDENCY, **msgspec.structs.asdict(spec))


def line_of(spec: LineSpec) -> TaskStarLine:
    """Return a new dependency as specified. Raises InvalidInput for a condition that is missing, misplaced, or does not parse."""
    kind = spec.dependency_type
    if kind is DependencyType.CONDITIONAL:
        Condition(spec.condition)
    elif spec.condition:
        raise InvalidInput(f"dependency {spec.line_id}: a condition goes with type CONDITIONAL, not {kind}")
    return TaskStarLine(line_id=spec.line_id, source=spec.source, target=spec.target, type=kind, condition=spec.condition)
