"""The constellation agent's table: START -> {CONTINUE, FAIL}, CONTINUE -> {CONTINUE, FINISH, FAIL, START}.

Nothing else moves its state. The moves themselves are in ``planning``, ``tasks`` and ``ending``.
"""

from __future__ import annotations

from enum import StrEnum

from asterism.constellation.edits import EditRefused
from asterism.errors import Refused
from asterism.kernel.machine import Machine, Turn, row
from asterism.machines.children import ChildEnded
from asterism.machines.common_rows import DEFECT, Control, governed, why_broke, why_cancelled
from asterism.machines.constellation_agent.asking import ask_planner, defer, raise_limits
from asterism.machines.constellation_agent.ending import end, give_up, is_done
from asterism.machines.constellation_agent.events import (
    BUDGET,
    AskPlanner,
    ConstellationAgentStatus,
    DeviceFound,
    DeviceLost,
    Dispatch,
    Edited,
    Planned,
    PlanningFailed,
    Progressed,
    RaiseLimits,
    RunOptions,
    Submitted,
    TaskEnded,
)
from asterism.machines.constellation_agent.forking import ask_approval_anew, decide_anew
from asterism.machines.constellation_agent.memory import AgentMemory
from asterism.machines.constellation_agent.nested import as_task_end
from asterism.machines.constellation_agent.planning import (
    drop_planning,
    expire_approval,
    take_creation,
    take_edit,
    take_given,
    take_live_edit,
    take_verdict,
)
from asterism.machines.constellation_agent.planning_state import Asked, AskedPerson, Deferred, Idle, PlanRequest
from asterism.machines.constellation_agent.requests import REQUESTS
from asterism.machines.constellation_agent.starting import first_event
from asterism.machines.constellation_agent.tasks import expire, skip_doomed, start_ready, take_answer, take_end
from asterism.machines.control import Answered, Broke, Cancel, Claimed, Drained, Forked, Unpause, not_asked
from asterism.machines.wiring import Board

Status = ConstellationAgentStatus
START, CONTINUE, FINISH, FAIL = Status.START, Status.CONTINUE, Status.FINISH, Status.FAIL


# -- START -----------------------------------------------------------------------------------------


def _submitted(memory: AgentMemory, event: Submitted, turn: Turn) -> Status:
    if memory.started_at:
        raise Refused("this run was submitted already")
    memory.fleet = {profile.device_id: profile for profile in event.fleet}
    memory.started_at, memory.inputs, memory.options = turn.at, event.inputs, event.options
    state = START
    if event.plan is not None:
        try:
            state = take_given(memory, event.plan, turn)
        except EditRefused:
            memory.fleet, memory.started_at, memory.inputs, memory.options = {}, 0.0, {}, RunOptions()
            raise
    memory.request, memory.earlier = event.request, event.earlier
    memory.folder, memory.fleet_file = event.folder, event.fleet_file
    turn.touch("device", *memory.fleet)
    memory.wake(turn.at + event.options.wall_limit_s)
    return state


def _plan_when_settled(memory: AgentMemory, event: Drained, turn: Turn) -> Status | None:
    if _past_limit(memory, turn):
        return give_up(memory, "wall_limit", f"the run took longer than {memory.options.wall_limit_s:g} s", turn)
    passed = memory.timers_due(turn.at)  # those of a constellation that was thrown away, too
    if passed and (state := expire_approval(memory, turn)):
        return state
    if memory.paused or turn.abandoned or isinstance(memory.planning, Asked):
        return START if passed else None
    counted = isinstance(memory.planning, Deferred) and memory.planning.counted
    if memory.asks >= memory.options.max_asks and not counted:
        return give_up(memory, "asks", f"the planner was asked {memory.asks} times", turn)
    ask_planner(memory, turn)
    return START


def _created(memory: AgentMemory, event: Planned, turn: Turn) -> Status:
    return take_creation(memory, event, turn)


def _not_created(memory: AgentMemory, event: PlanningFailed, turn: Turn) -> Status:
    if event.code == BUDGET:
        defer(memory, memory.open_request, event.reason, counted=True)
        return START
    memory.planning = Idle()
    return give_up(memory, event.code, event.reason, turn)


def _plan_answered(memory: AgentMemory, event: Answered, turn: Turn) -> Status:
    if isinstance(memory.planning, AskedPerson) and memory.planning.effect == event.effect:
        return take_verdict(memory, memory.planning.proposed, event, turn)
    raise not_asked(event)


# -- CONTINUE --------------------------------------------------------------------------------------


def _drained(memory: AgentMemory, event: Drained, turn: Turn) -> Status | None:
    if _past_limit(memory, turn):
        return give_up(memory, "wall_limit", f"the run took longer than {memory.options.wall_limit_s:g} s", turn)
    board = _board(memory)
    changed = memory.timers_due(turn.at)  # a time that has come makes an entry: what a replay does not know it would do again
    if changed:
        expire(memory, board, turn)
        expire_approval(memory, turn)
    if not memory.paused and (isinstance(memory.planning, Deferred) or (isinstance(memory.planning, Idle) and memory.batch)):
        ask_planner(memory, turn)
        changed = True
    while skip_doomed(memory, board, turn) or start_ready(memory, board, turn):  # bounded: each round starts or settles a task
        changed = True
    if is_done(memory, board):
        if memory.options.replan == "when_needed" and memory.unseen and memory.paused:
            return CONTINUE if changed else None
        if memory.options.replan != "when_needed" or not memory.unseen or memory.asks >= memory.options.max_asks:
            return end(memory, board, turn)
        ask_planner(memory, turn, PlanRequest(batch=tuple(memory.unseen)))
        changed = True
    return CONTINUE if changed else None


def _edited(memory: AgentMemory, event: Planned, turn: Turn) -> Status:
    return take_edit(memory, _board(memory), event, turn)


def _edited_live(memory: AgentMemory, event: Edited, turn: Turn) -> Status:
    take_live_edit(memory, _board(memory), event, turn)
    return CONTINUE


def _not_edited(memory: AgentMemory, event: PlanningFailed, turn: Turn) -> Status:
    if event.code == BUDGET:
        defer(memory, memory.open_request, event.reason, counted=True)
    else:
        drop_planning(memory, _board(memory), turn)
    return CONTINUE


def _task_ended(memory: AgentMemory, event: TaskEnded, turn: Turn) -> Status:
    take_end(memory, _board(memory), event, turn)
    return CONTINUE


def _child_ended(memory: AgentMemory, event: ChildEnded, turn: Turn) -> Status:
    take_end(memory, _board(memory), as_task_end(event, memory.attempts[event.effect], turn.at), turn)
    return CONTINUE


def _answered(memory: AgentMemory, event: Answered, turn: Turn) -> Status:
    if isinstance(memory.planning, AskedPerson) and memory.planning.effect == event.effect:
        return take_verdict(memory, memory.planning.proposed, event, turn)
    take_answer(memory, _board(memory), event, turn)
    return CONTINUE


# -- in more than one state ------------------------------------------------------------------------


def _cancelled(memory: AgentMemory, event: Cancel, turn: Turn) -> Status:
    return give_up(memory, "cancelled", why_cancelled(event.reason, turn), turn)


def _broke(memory: AgentMemory, event: Broke, turn: Turn) -> Status:
    return give_up(memory, DEFECT, why_broke(event), turn)


def _not_editable(memory: AgentMemory, event: Edited, turn: Turn) -> Status:
    if memory.code:
        raise EditRefused("ended", "run", f"it has ended ({memory.outcome()}); nothing of it can be edited any more")
    raise EditRefused("no_constellation", "run", "it has no constellation yet; it is being planned")


def _raised(memory: AgentMemory, event: RaiseLimits, turn: Turn) -> StrEnum:
    raise_limits(memory, event)
    return turn.state


def _lost(memory: AgentMemory, event: DeviceLost, turn: Turn) -> StrEnum:
    memory.lost[event.device] = event.reason
    turn.touch("device", event.device)
    return turn.state


def _found(memory: AgentMemory, event: DeviceFound, turn: Turn) -> StrEnum:
    memory.lost.pop(event.device, None)
    turn.touch("device", event.device)
    return turn.state


def _progressed(memory: AgentMemory, event: Progressed, turn: Turn) -> StrEnum | None:
    return turn.state if event.of in memory.attempts else None


def _stay(memory: AgentMemory, event: Drained, turn: Turn) -> None:
    """Terminal states stay what they are, and make no entry of it."""


def _claimed(memory: AgentMemory, event: Claimed, turn: Turn) -> None:
    turn.touch("device", *memory.lost)
    memory.lost.clear()  # another owner, other connections: it will be told what is lost for it


def _forked(memory: AgentMemory, event: Forked, turn: Turn) -> None:
    memory.postpone(event.idle_s, turn)
    if memory.board and turn.state is CONTINUE:
        decide_anew(memory, memory.board, event, turn)
    ask_approval_anew(memory, turn)


def _unpaused(memory: AgentMemory, event: Unpause, turn: Turn) -> None:
    memory.paused, memory.limit = False, ""


def _board(memory: AgentMemory) -> Board:
    if memory.board is None:
        raise RuntimeError("CONTINUE without a constellation")
    return memory.board


def _past_limit(memory: AgentMemory, turn: Turn) -> bool:
    return bool(memory.started_at) and turn.at >= memory.started_at + memory.options.wall_limit_s


CONSTELLATION_AGENT: Machine[AgentMemory] = governed(
    "constellation agent",
    states=ConstellationAgentStatus,
    initial=START,
    table={
        START: {
            Submitted: row(_submitted, CONTINUE, internal=True),
            Drained: row(_plan_when_settled, FAIL, internal=True),
            Planned: row(_created, CONTINUE, FAIL, internal=True),
            PlanningFailed: row(_not_created, FAIL, internal=True),
            Answered: row(_plan_answered, CONTINUE, FAIL, internal=True),
        },
        CONTINUE: {
            Drained: row(_drained, CONTINUE, FINISH, FAIL),
            Planned: row(_edited, CONTINUE, FINISH, FAIL, START),
            PlanningFailed: row(_not_edited, CONTINUE),
            Edited: row(_edited_live, CONTINUE),
            TaskEnded: row(_task_ended, CONTINUE),
            ChildEnded: row(_child_ended, CONTINUE),
            Answered: row(_answered, CONTINUE, FINISH, FAIL, START),
        },
        FINISH: {Drained: row(_stay, FINISH)},
        FAIL: {Drained: row(_stay, FAIL)},
    },
    effects=(AskPlanner, Dispatch),
    memory=AgentMemory,
    requests=REQUESTS,
    control=Control(cancel=row(_cancelled, FAIL), defect=row(_broke, FAIL), claimed=_claimed, forked=_forked, unpaused=_unpaused),
    common={Edited: row(_not_editable)},
    while_live={
        RaiseLimits: row(_raised),
        DeviceLost: row(_lost),
        DeviceFound: row(_found),
        Progressed: row(_progressed),
    },
    starts=first_event,
)
