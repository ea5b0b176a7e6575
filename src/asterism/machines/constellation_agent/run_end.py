"""The end of a constellation agent's run: when no work is left, by giving up, or not yet."""

from __future__ import annotations

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.task import TaskStar, TaskStatus
from asterism.kernel.machine import StepContext
from asterism.machines.constellation_agent.events import ConstellationAgentStatus
from asterism.machines.constellation_agent.memory import Awaiting, ConstellationMemory, NotPlanning, PlanningState
from asterism.machines.constellation_agent.tasks import cancel_attempt, stop_all
from asterism.machines.task_coupling import TaskSchedule


def is_done(memory: ConstellationMemory, schedule: TaskSchedule) -> bool:
    """Return True if no task is running or startable, and no decision or question is open."""
    return not (schedule.running or schedule.startable or memory.batch or memory.questions or schedule.unsatisfiable) and isinstance(
        memory.planning, NotPlanning
    )


def finish(memory: ConstellationMemory) -> ConstellationAgentStatus:
    """End the run as finished."""
    memory.code = "finished"
    return ConstellationAgentStatus.FINISH


def end(memory: ConstellationMemory, schedule: TaskSchedule, context: StepContext) -> ConstellationAgentStatus:
    """End a run that has no work left.

    Return FINISH, or FAIL with the first unhandled failed task as the reason.
    """
    unhandled = [task for task in schedule.constellation.in_order() if _is_unhandled(schedule.constellation, task)]
    if not unhandled:
        return finish(memory)
    first = unhandled[0]
    why = first.error.message if first.error else ""
    more = f" (and {len(unhandled) - 1} more)" if len(unhandled) > 1 else ""
    words = first.name or first.resolved_skill
    named = f"{first.task_id} ({words})" if words else first.task_id
    return give_up(memory, "task_failed", f"{named} is {first.status}: {why}{more}", context)


def _is_unhandled(constellation: TaskConstellation, task: TaskStar) -> bool:
    """Return True for a failed or cancelled task, unless a task that handles it completed."""
    if task.status not in (TaskStatus.FAILED, TaskStatus.CANCELLED):
        return False
    return not any(
        line.verdict is not None and line.verdict.satisfied and constellation.tasks[line.target].status is TaskStatus.COMPLETED
        for line in constellation.lines_out(task.task_id)
    )


def why_not_finished(memory: ConstellationMemory, schedule: TaskSchedule, decided: PlanningState) -> str:
    """Return the reason why the planner's FINISH is refused; empty if it is accepted."""
    if schedule.running:
        return f"{', '.join(schedule.running)} still running"
    if memory.batch or (isinstance(decided, Awaiting) and decided.ended_since):
        return "a task has ended since you were asked"
    waiting = [task.task_id for task in schedule.constellation.in_order() if not task.settled]
    return f"{', '.join(waiting[:10])} can still start" if waiting else ""


def give_up(memory: ConstellationMemory, code: str, reason: str, context: StepContext) -> ConstellationAgentStatus:
    """End in FAIL: cancel the tasks that have not ended and everything outstanding."""
    memory.code, memory.reason = code, reason
    if isinstance(memory.planning, Awaiting):
        cancel_attempt(memory, memory.planning.effect_id, context)
    memory.planning = NotPlanning()
    if memory.schedule:
        stop_all(memory, memory.schedule, reason, context)
    memory.batch.clear()
    memory.unseen.clear()
    return ConstellationAgentStatus.FAIL
