"""How a constellation agent ends: by itself when nothing is left, by giving up, or not yet."""

from __future__ import annotations

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.task import TaskStar, TaskStatus
from asterism.kernel.machine import Turn
from asterism.machines.constellation_agent.events import ConstellationAgentStatus
from asterism.machines.constellation_agent.memory import AgentMemory
from asterism.machines.constellation_agent.planning_state import Asked, Idle, PlanningState
from asterism.machines.constellation_agent.tasks import call_off, stop_all
from asterism.machines.wiring import Board


def is_done(memory: AgentMemory, board: Board) -> bool:
    """True when nothing runs, can start, is asked or is still to be asked about."""
    return not (board.running or board.startable or memory.batch or memory.questions or board.doomed) and isinstance(memory.planning, Idle)


def finish(memory: AgentMemory) -> ConstellationAgentStatus:
    """End well."""
    memory.code = "finished"
    return ConstellationAgentStatus.FINISH


def end(memory: AgentMemory, board: Board, turn: Turn) -> ConstellationAgentStatus:
    """End a run in which nothing is left to do: FINISH, or FAIL naming the first task that failed and was not handled."""
    unhandled = [task for task in board.constellation.in_order() if _is_unhandled(board.constellation, task)]
    if not unhandled:
        return finish(memory)
    first = unhandled[0]
    why = first.error.message if first.error else ""
    more = f" (and {len(unhandled) - 1} more)" if len(unhandled) > 1 else ""
    words = first.name or first.resolved_skill
    named = f"{first.task_id} ({words})" if words else first.task_id
    return give_up(memory, "task_failed", f"{named} is {first.status}: {why}{more}", turn)


def _is_unhandled(constellation: TaskConstellation, task: TaskStar) -> bool:
    """A failed or cancelled task is handled by a completed task that was to run after it either way."""
    if task.status not in (TaskStatus.FAILED, TaskStatus.CANCELLED):
        return False
    return not any(
        line.verdict is not None and line.verdict.satisfied and constellation.tasks[line.target].status is TaskStatus.COMPLETED
        for line in constellation.lines_out(task.task_id)
    )


def why_not_finished(memory: AgentMemory, board: Board, decided: PlanningState) -> str:
    """Why the planner's FINISH cannot be taken; empty when it can."""
    if board.running:
        return f"{', '.join(board.running)} still running"
    if memory.batch or (isinstance(decided, Asked) and decided.ended_since):
        return "a task has ended since you were asked"
    waiting = [task.task_id for task in board.constellation.in_order() if not task.settled]
    return f"{', '.join(waiting[:10])} can still start" if waiting else ""


def give_up(memory: AgentMemory, code: str, reason: str, turn: Turn) -> ConstellationAgentStatus:
    """End in FAIL: cancel what has not settled, call off what is outstanding."""
    memory.code, memory.reason = code, reason
    if isinstance(memory.planning, Asked):
        call_off(memory, memory.planning.effect, turn)
    memory.planning = Idle()
    if memory.board:
        stop_all(memory, memory.board, reason, turn)
    memory.batch.clear()
    memory.unseen.clear()
    return ConstellationAgentStatus.FAIL
