"""The constellation agent's table: START -> {CONTINUE, FAIL}, CONTINUE -> {CONTINUE, FINISH, FAIL, START}.

Nothing else moves its state. The moves themselves are in ``planning``, ``tasks`` and ``ending``.
"""

from __future__ import annotations

from asterism.constellation.edits import EditRefused
from asterism.errors import Refused
from asterism.kernel.machine import Event, Machine, Row, Turn, row
from asterism.machines.children import ChildEnded, ChildRested, Relay, Relayed, StartChild, note_rest, tell_children
from asterism.machines.constellation_agent.asking import ask_planner, put_off, raise_limits
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
from asterism.machines.constellation_agent.memory import AgentMemory, Asking
from asterism.machines.constellation_agent.nested import as_task_end, leave_children
from asterism.machines.constellation_agent.planning import (
    drop_planning,
    expire_approval,
    take_creation,
    take_edit,
    take_given,
    take_live_edit,
    take_verdict,
)
from asterism.machines.constellation_agent.requests import REQUESTS
from asterism.machines.constellation_agent.tasks import expire, skip_doomed, start_ready, take_answer, take_end
from asterism.machines.control import Answered, Ask, Broke, Cancel, Claimed, Drained, Forked, Pause, Unpause, Withdraw, Withdrawn, not_asked
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
    memory.wake(turn.at + event.options.wall_limit_s)
    return state


def _plan_when_settled(memory: AgentMemory, event: Drained, turn: Turn) -> Status | None:
    if _past_limit(memory, turn):
        return give_up(memory, "wall_limit", f"the run took longer than {memory.options.wall_limit_s:g} s", turn)
    passed = memory.timers_due(turn.at)  # those of a constellation that was thrown away, too
    if passed and (state := expire_approval(memory, turn)):
        return state
    if memory.paused or memory.leaving or (memory.asking and memory.asking.effect):
        return START if passed else None
    if memory.asks >= memory.options.max_asks and not (memory.asking and memory.asking.put_at):  # what was put off is counted
        return give_up(memory, "asks", f"the planner was asked {memory.asks} times", turn)
    ask_planner(memory, turn, memory.asking or Asking())
    return START


def _created(memory: AgentMemory, event: Planned, turn: Turn) -> Status:
    _count(memory, event)
    return START if _left(memory, event.effect) else take_creation(memory, event, turn)


def _not_created(memory: AgentMemory, event: PlanningFailed, turn: Turn) -> Status:
    _count(memory, event)
    if _left(memory, event.effect):
        return START
    if event.code == BUDGET:
        put_off(memory, event.reason)
        return START
    memory.asking = None
    return give_up(memory, event.code, event.reason, turn)


def _plan_answered(memory: AgentMemory, event: Answered, turn: Turn) -> Status:
    if memory.asking and memory.asking.proposed and memory.asking.effect == event.effect:
        return take_verdict(memory, memory.asking.proposed, event, turn)
    if not event.withdrawn:
        raise not_asked(event)
    _left(memory, event.effect)
    return START


# -- CONTINUE --------------------------------------------------------------------------------------


def _drained(memory: AgentMemory, event: Drained, turn: Turn) -> Status | None:
    if _past_limit(memory, turn):
        return give_up(memory, "wall_limit", f"the run took longer than {memory.options.wall_limit_s:g} s", turn)
    board = _board(memory)
    changed = memory.timers_due(turn.at)  # a time that has come makes an entry: what a replay does not know it would do again
    if changed:
        expire(memory, board, turn)
        expire_approval(memory, turn)
    if not memory.paused and (not memory.asking.effect if memory.asking else memory.batch):
        ask_planner(memory, turn, memory.asking or Asking())
        changed = True
    while skip_doomed(memory, board, turn) or start_ready(memory, board, turn):  # bounded: each round starts or settles a task
        changed = True
    if is_done(memory, board):
        if memory.options.replan == "when_needed" and memory.unseen and memory.paused:
            return CONTINUE if changed else None
        if memory.options.replan != "when_needed" or not memory.unseen or memory.asks >= memory.options.max_asks:
            return end(memory, board, turn)
        ask_planner(memory, turn, Asking(batch=tuple(memory.unseen)))
        changed = True
    return CONTINUE if changed else None


def _edited(memory: AgentMemory, event: Planned, turn: Turn) -> Status:
    _count(memory, event)
    return CONTINUE if _left(memory, event.effect) else take_edit(memory, _board(memory), event, turn)


def _edited_live(memory: AgentMemory, event: Edited, turn: Turn) -> Status:
    take_live_edit(memory, _board(memory), event, turn)
    return CONTINUE


def _not_edited(memory: AgentMemory, event: PlanningFailed, turn: Turn) -> Status:
    _count(memory, event)
    if _left(memory, event.effect):
        return CONTINUE
    if event.code == BUDGET:
        put_off(memory, event.reason)
    else:
        drop_planning(memory, _board(memory), turn)
    return CONTINUE


def _task_ended(memory: AgentMemory, event: TaskEnded, turn: Turn) -> Status:
    if not _left(memory, event.effect):
        take_end(memory, _board(memory), event, turn)
    return CONTINUE


def _child_ended(memory: AgentMemory, event: ChildEnded, turn: Turn) -> Status:
    if not _left(memory, event.effect):
        take_end(memory, _board(memory), as_task_end(event, memory.attempts[event.effect], turn.at), turn)
    return CONTINUE


def _answered(memory: AgentMemory, event: Answered, turn: Turn) -> Status:
    if event.withdrawn and _left(memory, event.effect):
        return CONTINUE
    if memory.asking and memory.asking.proposed and memory.asking.effect == event.effect:
        return take_verdict(memory, memory.asking.proposed, event, turn)
    take_answer(memory, _board(memory), event, turn)
    return CONTINUE


# -- in more than one state ------------------------------------------------------------------------


def _cancelled(memory: AgentMemory, event: Cancel, turn: Turn) -> Status:
    return give_up(memory, "cancelled", f"cancelled by {turn.actor}" + (f": {event.reason}" if event.reason else ""), turn)


def _broke(memory: AgentMemory, event: Broke, turn: Turn) -> Status:
    _left(memory, event.effect)
    return give_up(memory, "defect", f"{event.event} could not be taken: {event.reason}", turn)


def _not_editable(memory: AgentMemory, event: Edited, turn: Turn) -> Status:
    if memory.code:
        raise EditRefused("ended", "run", f"it has ended ({memory.outcome()}); nothing of it can be edited any more")
    raise EditRefused("no_constellation", "run", "it has no constellation yet; it is being planned")


def _stay(memory: AgentMemory, event: Drained, turn: Turn) -> None:
    """Terminal states stay what they are, and make no entry of it."""


def _noted_in(state: Status) -> dict[type[Event], Row]:
    """Internal rows of a state: what is journaled there and changes no state."""

    def claimed(memory: AgentMemory, event: Claimed, turn: Turn) -> Status:
        memory.lost.clear()  # another owner, other connections: it will be told what is lost for it
        memory.resting.clear()  # and its children will say how they are
        return state

    def paused(memory: AgentMemory, event: Pause, turn: Turn) -> Status:
        memory.paused = True
        tell_children(memory.children, event, turn)
        return state

    def unpaused(memory: AgentMemory, event: Unpause, turn: Turn) -> Status:
        memory.paused, memory.limit = False, ""
        tell_children(memory.children, event, turn)
        return state

    def raised(memory: AgentMemory, event: RaiseLimits, turn: Turn) -> Status:
        raise_limits(memory, event)
        return state

    def forked(memory: AgentMemory, event: Forked, turn: Turn) -> Status:
        memory.postpone(event.idle_s)
        leave_children(memory, turn)
        if memory.board and state is CONTINUE:
            decide_anew(memory, memory.board, event, turn)
        ask_approval_anew(memory, turn)
        return state

    def left(memory: AgentMemory, event: TaskEnded | Planned | PlanningFailed | Answered | Withdrawn | Broke, turn: Turn) -> Status:
        if isinstance(event, Answered) and not event.withdrawn:
            raise not_asked(event)
        _count(memory, event)
        _left(memory, event.effect)
        return state

    outcomes = (TaskEnded, Planned, PlanningFailed, Answered, Withdrawn)
    controls: dict[type[Event], Row] = {
        Claimed: row(claimed),
        Forked: row(forked),
        Edited: row(_not_editable),
        **_of_children(state),
        **{outcome: row(left) for outcome in outcomes},
    }
    if state in (FINISH, FAIL):
        return {**controls, Drained: row(_stay, state), Broke: row(left)}
    return {
        **controls,
        **_news_in(state),
        Pause: row(paused),
        Unpause: row(unpaused),
        RaiseLimits: row(raised),
        Cancel: row(_cancelled, FAIL),
        Broke: row(_broke, FAIL),
    }


def _of_children(state: Status) -> dict[type[Event], Row]:
    """Internal rows of a state that tell of child runs."""

    def rested(memory: AgentMemory, event: ChildRested, turn: Turn) -> Status | None:
        return state if event.of in memory.children and note_rest(memory.resting, event) else None

    def child_left(memory: AgentMemory, event: ChildEnded, turn: Turn) -> Status:
        _left(memory, event.effect)
        return state

    def relayed(memory: AgentMemory, event: Relayed, turn: Turn) -> Status:
        return state

    return {ChildRested: row(rested), ChildEnded: row(child_left), Relayed: row(relayed)}


def _news_in(state: Status) -> dict[type[Event], Row]:
    """Internal rows of a state for what devices tell."""

    def lost(memory: AgentMemory, event: DeviceLost, turn: Turn) -> Status:
        memory.lost[event.device] = event.reason
        return state

    def found(memory: AgentMemory, event: DeviceFound, turn: Turn) -> Status:
        memory.lost.pop(event.device, None)
        return state

    def progressed(memory: AgentMemory, event: Progressed, turn: Turn) -> Status | None:
        return state if event.of in memory.attempts else None

    return {DeviceLost: row(lost), DeviceFound: row(found), Progressed: row(progressed)}


def _board(memory: AgentMemory) -> Board:
    if memory.board is None:
        raise RuntimeError("CONTINUE without a constellation")
    return memory.board


def _past_limit(memory: AgentMemory, turn: Turn) -> bool:
    return bool(memory.started_at) and turn.at >= memory.started_at + memory.options.wall_limit_s


def _count(memory: AgentMemory, event: Event) -> None:
    """What was used counts, whatever becomes of the answer."""
    if isinstance(event, Planned | PlanningFailed):
        memory.used = memory.used.plus(event.usage)


def _left(memory: AgentMemory, effect: str) -> bool:
    """An effect has its outcome. True for one that was called off: then it has no consequence."""
    memory.children.pop(effect, None)
    memory.resting.discard(effect)
    was_leaving = effect in memory.leaving
    memory.leaving.discard(effect)
    return was_leaving


CONSTELLATION_AGENT: Machine[AgentMemory] = Machine(
    "constellation agent",
    states=ConstellationAgentStatus,
    initial=START,
    table={
        START: {
            **_noted_in(START),
            Submitted: row(_submitted, CONTINUE, internal=True),
            Drained: row(_plan_when_settled, FAIL, internal=True),
            Planned: row(_created, CONTINUE, FAIL, internal=True),
            Answered: row(_plan_answered, CONTINUE, FAIL, internal=True),
            PlanningFailed: row(_not_created, FAIL, internal=True),
        },
        CONTINUE: {
            **_noted_in(CONTINUE),
            Drained: row(_drained, CONTINUE, FINISH, FAIL),
            Edited: row(_edited_live, CONTINUE),
            Planned: row(_edited, CONTINUE, FINISH, FAIL, START),
            PlanningFailed: row(_not_edited, CONTINUE),
            TaskEnded: row(_task_ended, CONTINUE),
            ChildEnded: row(_child_ended, CONTINUE),
            Answered: row(_answered, CONTINUE, FINISH, FAIL, START),
        },
        FINISH: _noted_in(FINISH),
        FAIL: _noted_in(FAIL),
    },
    effects=(AskPlanner, Dispatch, StartChild, Relay, Ask, Withdraw),
    memory=AgentMemory,
    requests=REQUESTS,
)
