"""How a constellation agent ends: by itself when nothing is left, by giving up, or not yet."""

from __future__ import annotations

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.task import TaskStar, TaskStatus
from asterism.kernel.machine import StepContext
from asterism.machines.constellation_agent.events import ConstellationAgentStatus
from asterism.machines.constellation_agent.memory import ConstellationMemory
from asterism.machines.constellation_agent.planning_state import Awaiting, NotPlanning, PlanningState
from asterism.machines.constellation_agent.tasks import cancel_attempt, stop_all
from asterism.machines.task_coupling import TaskSchedule


def is_done(memory: ConstellationMemory, schedule: TaskSchedule) -> bool:
    """True when nothing runs, can start, is asked or is still to be asked about."""
    return not (schedule.running or schedule.startable or memory.batch or memory.questions or schedule.unsatisfiable) and isinstance(
        memory.planning, NotPlanning
    )


def finish(memory: ConstellationMemory) -> ConstellationAgentStatus:
    """End well."""
    memory.code = "finished"
    return ConstellationAgentStatus.FINISH


def end(memory: ConstellationMemory, schedule: TaskSchedule, context: StepContext) -> ConstellationAgentStatus:
    """End a run in which nothing is left to do: FINISH, or FAIL naming the first task that failed and was not handled."""
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
    """A failed or cancelled task is handled by a completed task that was to run after it either way."""
    if task.status not in (TaskStatus.FAILED, TaskStatus.CANCELLED):
        return False
    return not any(
        line.verdict is not None and line.verdict.satisfied and constellation.tasks[line.target].status is TaskStatus.COMPLETED
        for line in constellation.lines_out(task.task_id)
    )


def why_not_finished(memory: ConstellationMemory, schedule: TaskSchedule, decided: PlanningState) -> str:
    """Why the planner's FINISH cannot be taken; empty when it can."""
    if schedule.running:
        return f"{', '.join(schedule.running)} still running"
    if memory.batch or (isinstance(decided, Awaiting) and decided.ended_since):
        return "a task has ended since you were asked"
    waiting = [task.task_id for task in schedule.constellation.in_order() if not task.settled]
    return f"{', '.join(waiting[:10])} can still start" if waiting else ""


def give_up(memory: ConstellationMemory, code: str, reason: str, context: StepContext) -> ConstellationAgentStatus:
    """End in FAIL: cancel what has not settled, call off what is outstanding."""
    memory.code, memory.reason = code, reason
    if isinstance(memory.planning, Awaiting):
        cancel_attempt(memory, memory.planning.effect_id, context)
    memory.planning = NotPlanning()
    if memory.schedule:
        stop_all(memory, memory.schedule, reason, context)
    memory.batch.clear()
    memory.unseen.clear()
    return ConstellationAgentStatus.FAIL
