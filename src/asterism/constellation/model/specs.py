"""New tasks and dependencies, as a plan or an edit specifies them, and the schema of a written constellation."""

from __future__ import annotations

import msgspec

from asterism.constellation.model.condition import Condition
from asterism.constellation.model.documents import LineSpec
from asterism.constellation.model.line import DependencyType, TaskStarLine
from asterism.constellation.model.task import TaskSpec, TaskStar, TaskStatus
from asterism.errors import InvalidInput


def task_of(spec: TaskSpec) -> TaskStar:
    """Return a new task as specified, waiting until its dependencies have been checked."""
    return TaskStar(status=TaskStatus.WAITING_DEPENDENCY, **msgspec.structs.asdict(spec))


def unstarted(task: TaskStar) -> TaskStar:
    """Return a task as it was before it started; ``approved`` stays."""
    return msgspec.structs.replace(
        task,
        status=TaskStatus.WAITING_DEPENDENCY,
        result=None,
        error=None,
        attempts=0,
        effect_id="",
        inquiry_id="",
        not_before=0.0,
        became_pending_at=0.0,
        started_at=0.0,
        ended_at=0.0,
        items=None,
    )


def line_of(spec: LineSpec) -> TaskStarLine:
    """Return a new dependency as specified. Raises InvalidInput for a condition that is missing, misplaced, or does not parse."""
    kind = spec.dependency_type
    if kind is DependencyType.CONDITIONAL:
        Condition(spec.condition)
    elif spec.condition:
        raise InvalidInput(f"dependency {spec.line_id}: a condition goes with type CONDITIONAL, not {kind}")
    return TaskStarLine(line_id=spec.line_id, source=spec.source, target=spec.target, type=kind, condition=spec.condition)


class WrittenConstellation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The schema of ``TaskConstellation.to_dict``."""

    version: int = 0
    constellation_id: str = ""
    name: str = ""
    generation: int = 0
    tasks: list[TaskStar]
    dependencies: list[TaskStarLine]
    removed_tasks: list[str] = []
    removed_dependencies: list[str] = []
