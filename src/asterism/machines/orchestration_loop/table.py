"""The orchestration loop's table. Nothing else moves its state.

The seven states and their edges are the contract; PARALLEL, CONFIRMING and CANCELLED, with the edges to and from them, are the extension.
Only Drained starts anything; what a worker or a supervising function has come to, and the state that follows, are one entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from asterism.errors import Refused
from asterism.kernel.machine import Event, Machine, Row, Turn, row
from asterism.machines.children import ChildEnded, ChildRested, note_rest
from asterism.machines.common_rows import DEFECT, Control, governed, why_broke, why_cancelled
from asterism.machines.control import Answered, Broke, Cancel, Drained, Forked, Unpause
from asterism.machines.orchestration_loop.effects import AskModel, CallTool, Critique, MakePlan, Reflect, RunWorker, Synthesize
from asterism.machines.orchestration_loop.ending import fail, past_bound, stop
from asterism.machines.orchestration_loop.events import (
    Critiqued,
    LoopSubmitted,
    ModelReplied,
    PlanMade,
    Reflected,
    StepOnce,
    Synthesized,
    ToolReturned,
    WorkerEnded,
)
from asterism.machines.orchestration_loop.forking import decide_anew
from asterism.machines.orchestration_loop.memory import LoopMemory
from asterism.machines.orchestration_loop.model import State
from asterism.machines.orchestration_loop.people import expire, take_answer
from asterism.machines.orchestration_loop.planning import adopt, ask_for_plan, problem, take_plan, with_ids
from asterism.machines.orchestration_loop.reflecting import ask_supervisor, take_said
from asterism.machines.orchestration_loop.requests import REQUESTS
from asterism.machines.orchestration_loop.starting import first_event
from asterism.machines.orchestration_loop.working import claim, observe, standing, start_ready, take_outcome

PLANNING, EXECUTING, OBSERVING, REFLECTING = State.PLANNING, State.EXECUTING, State.OBSERVING, State.REFLECTING
WAITING, COMPLETE, FAILED = State.WAITING, State.COMPLETE, State.FAILED
PARALLEL, CONFIRMING, CANCELLED = State.PARALLEL, State.CONFIRMING, State.CANCELLED


# -- PLANNING --------------------------------------------------------------------------------------


def _submitted(memory: LoopMemory, event: LoopSubmitted, turn: Turn) -> State:
    if memory.started_at:
        raise Refused("this run was submitted already")
    memory.workers = {profile.name: profile for profile in event.workers}
    plan = with_ids(memory, event.plan)
    if why := problem(memory, plan):
        memory.workers = {}
        raise Refused(why)
    memory.request, memory.context, memory.options = event.request, event.context, event.options
    memory.definition, memory.folder = event.definition, event.folder
    memory.critiques = event.critiques
    memory.started_at = turn.at
    if plan:
        adopt(memory, plan, turn)
        return EXECUTING
    return PLANNING


def _plan(memory: LoopMemory, event: Drained, turn: Turn) -> State | None:
    if past := past_bound(memory, turn):
        return fail(memory, *past, turn)
    if memory.paused or memory.asking:
        return None
    ask_for_plan(memory, turn)
    return PLANNING


def _planned(memory: LoopMemory, event: PlanMade, turn: Turn) -> State:
    return take_plan(memory, event, turn)


# -- while steps are under way ---------------------------------------------------------------------


def _worked(memory: LoopMemory, event: Drained, turn: Turn) -> StrEnum | None:
    """Begin the next steps where none are, and start what can be started."""
    if past := past_bound(memory, turn):
        return fail(memory, *past, turn)
    changed = expire(memory, turn)
    if not memory.active and not memory.paused:
        if stopped := claim(memory, turn):
            return stopped
        changed = True
        if memory.home is PARALLEL:
            memory.enter(PARALLEL)
    if not memory.paused:
        changed = start_ready(memory, turn) or standing(memory) is not turn.state or changed
    return _go_on(memory, turn) if changed else None


def _taken(memory: LoopMemory, event: WorkerEnded | ModelReplied | ToolReturned | ChildEnded, turn: Turn) -> StrEnum:
    take_outcome(memory, event, turn)
    return _go_on(memory, turn)


def _answered(memory: LoopMemory, event: Answered, turn: Turn) -> StrEnum:
    take_answer(memory, event, turn)
    return _go_on(memory, turn)


def _rested(memory: LoopMemory, event: ChildRested, turn: Turn) -> StrEnum | None:
    return _go_on(memory, turn) if event.of in memory.children() and note_rest(memory.resting, event) else None


def _go_on(memory: LoopMemory, turn: Turn) -> StrEnum:
    target = standing(memory)
    if target is turn.state:
        return target
    # Whoever waited goes back to work first; what follows from there is for the Drained after it.
    return memory.enter(target if turn.state in (EXECUTING, PARALLEL) else memory.home)


def _working(*targets: State) -> dict[type[Event], Row]:
    """Rows of a state in which steps are under way, or wait; only a bound leads to FAILED."""
    onward = [target for target in targets if target is not FAILED]
    return {
        Drained: row(_worked, *targets, internal=True),
        **{outcome: row(_taken, *onward, internal=True) for outcome in (WorkerEnded, ModelReplied, ToolReturned, ChildEnded)},
        ChildRested: row(_rested, *onward, internal=True),
        Answered: row(_answered, *onward, internal=True),
    }


# -- OBSERVING, REFLECTING -------------------------------------------------------------------------


def _observed(memory: LoopMemory, event: Drained, turn: Turn) -> State | None:
    if past := past_bound(memory, turn):
        return fail(memory, *past, turn)
    if memory.paused:
        return None
    observe(memory, turn)
    memory.stage, memory.critique = "reflect", ""
    entered = memory.enter(REFLECTING)
    return _ask(memory, turn) or entered


def _reflect(memory: LoopMemory, event: Drained, turn: Turn) -> State | None:
    if past := past_bound(memory, turn):
        return fail(memory, *past, turn)
    return _ask(memory, turn)


def _ask(memory: LoopMemory, turn: Turn) -> State | None:
    return None if memory.paused or memory.asking else ask_supervisor(memory, turn)


def _said(memory: LoopMemory, event: Reflected | Synthesized | Critiqued, turn: Turn) -> State:
    return take_said(memory, event, turn)


# -- in more than one state ------------------------------------------------------------------------


def _cancelled(memory: LoopMemory, event: Cancel, turn: Turn) -> State:
    memory.code, memory.reason = "cancelled", why_cancelled(event.reason, turn)
    stop(memory, turn)
    return CANCELLED


def _broke(memory: LoopMemory, event: Broke, turn: Turn) -> State:
    return fail(memory, DEFECT, why_broke(event), turn)


def _stepped(memory: LoopMemory, event: StepOnce, turn: Turn) -> StrEnum:
    memory.paused, memory.allowance = False, 1
    return turn.state


def _forked(memory: LoopMemory, event: Forked, turn: Turn) -> None:
    decide_anew(memory, event, turn)


def _unpaused(memory: LoopMemory, event: Unpause, turn: Turn) -> None:
    memory.paused, memory.allowance = False, None


ORCHESTRATION_LOOP: Machine[LoopMemory] = governed(
    "orchestration loop",
    states=State,
    initial=PLANNING,
    table={
        PLANNING: {
            LoopSubmitted: row(_submitted, EXECUTING, internal=True),
            Drained: row(_plan, FAILED, internal=True),
            PlanMade: row(_planned, EXECUTING, FAILED, internal=True),
        },
        EXECUTING: _working(OBSERVING, WAITING, FAILED, PARALLEL, CONFIRMING),
        OBSERVING: {Drained: row(_observed, REFLECTING, FAILED)},
        REFLECTING: {
            Drained: row(_reflect, FAILED, internal=True),
            Reflected: row(_said, PLANNING, EXECUTING, FAILED, internal=True),
            Synthesized: row(_said, COMPLETE, FAILED, internal=True),
            Critiqued: row(_said, COMPLETE, FAILED, internal=True),
        },
        WAITING: _working(EXECUTING, FAILED, PARALLEL),
        COMPLETE: {},
        FAILED: {},
        PARALLEL: _working(OBSERVING, WAITING, FAILED, CONFIRMING),
        CONFIRMING: _working(EXECUTING, FAILED, PARALLEL),
        CANCELLED: {},
    },
    effects=(MakePlan, RunWorker, Reflect, Synthesize, Critique, AskModel, CallTool),
    memory=LoopMemory,
    requests=REQUESTS,
    control=Control(cancel=row(_cancelled, CANCELLED), defect=row(_broke, FAILED), forked=_forked, unpaused=_unpaused),
    while_live={StepOnce: row(_stepped)},
    starts=first_event,
)

TRANSITIONS: Mapping[State, frozenset[State]] = {
    State(state): frozenset(map(State, targets)) for state, targets in ORCHESTRATION_LOOP.matrix().items()
}
"""State -> next states: the seven of the contract, and the three of the extension."""
