"""Attempts that child runs make: the start of the run, and its end as the end of the attempt."""

from __future__ import annotations

import msgspec

from asterism.constellation.machine.definition import MACHINE, ConstellationDefinition
from asterism.constellation.machine.events import AttemptEnded, Dispatch
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.model.resolution import predecessor_results
from asterism.constellation.model.task import TaskStar
from asterism.devices.model.attempt import task_error
from asterism.engine.control.children import MIN_LIMIT_S, ChildEnded, StartChild, child_start, child_start_of
from asterism.engine.kernel.machine import StartRequest, StepContext


def is_child(memory: ConstellationMemory, attempt: Dispatch) -> bool:
    """Return True for an attempt that a child run makes.

    The child is a nested constellation, or a run of the device's machine.
    """
    profile = memory.fleet.get(attempt.device_id)
    return attempt.plan is not None or (profile is not None and profile.child is not None)


def child_for(memory: ConstellationMemory, task: TaskStar, attempt: Dispatch, context: StepContext) -> StartChild:
    """Return the effect that starts the child run of an attempt.

    A nested constellation is not replanned. A child run has no more time than the task and this run
    have left.
    """
    profile, title = memory.fleet.get(attempt.device_id), task.name or task.task_id
    left_s = [memory.wall_end(context.at) - context.at]
    left_s += [attempt.timeout_s] if attempt.timeout_s is not None else []
    left_s += [attempt.deadline - context.at] if attempt.deadline is not None else []
    if attempt.plan is None and profile is not None and profile.child is not None:
        results = predecessor_results(task, memory.constellation)
        handed = {**attempt.arguments, **({"results": results} if results else {})}
        return child_start_of(profile.child, attempt.description, handed, left_s=min(left_s), title=title)
    defined = ConstellationDefinition(
        fleet=tuple(memory.fleet.values()),
        plan=msgspec.convert(attempt.plan, PlanDocument),
        options=msgspec.structs.replace(memory.options, replan="never"),
        working_directory=memory.working_directory,
    )
    start = StartRequest(
        definition=msgspec.to_builtins(defined, str_keys=True),
        request=task.description or title,
        inputs=attempt.arguments,
        budget_s=max(MIN_LIMIT_S, min(left_s)),
        fleet_file=memory.fleet_file,
    )
    return child_start(MACHINE, start, title)


def as_task_end(event: ChildEnded, attempt: Dispatch, at: float) -> AttemptEnded:
    """Return the end of a child run as the end of the attempt that it made."""
    if event.outcome == "finished":
        return AttemptEnded(effect_id=event.effect_id, result=event.result)
    if event.outcome == "cancelled":
        error = task_error("cancelled", event.reason)
    elif event.code == "interrupted":
        error = task_error("interrupted", event.reason)
    elif event.code == "wall_limit":
        late = attempt.deadline is not None and attempt.deadline <= at
        error = task_error("deadline" if late else "timeout", event.reason)
    else:
        error = task_error("child_failed", event.reason)
    return AttemptEnded(effect_id=event.effect_id, error=error)
