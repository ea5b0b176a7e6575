"""The orchestration loop's table. Nothing else moves its state.

The seven states and their edges are the contract; PARALLEL, CONFIRMING and CANCELLED, with the edges to and from them, are the extension.
Only Drained starts anything; what a worker or a supervising function has come to, and the state that follows, are one entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from asterism.errors import Refused
from asterism.kernel.machine import Event, Machine, Outcome, Row, Turn, row
from asterism.machines.children import ChildEnded, ChildRested, Relay, Relayed, StartChild, note_rest, tell_children
from asterism.machines.control import Answered, Ask, Broke, Cancel, Claimed, Drained, Forked, Pause, Unpause, Withdraw, Withdrawn, not_asked
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
from asterism.machines.orchestration_loop.working import claim, observe, standing, start_ready, take_outcome

PLANNING, EXECUTING, OBSERVING, REFLECTING = State.PLANNING, State.EXECUTING, State.OBSERVING, State.REFLECTING
WAITING, COMPLETE, FAILED = State.WAITING, State.COMPLETE, State.FAILED
PARALLEL, CONFIRMING, CANCELLED = State.PARALLEL, State.CONFIRMING, State.CANCELLED

OUTCOMES = (PlanMade, WorkerEnded, Reflected, Synthesized, Critiqued, ModelReplied, ToolReturned, ChildEnded, Relayed, Answered, Withdrawn)


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
    memory.definition, memory.fingerprint, memory.folder = event.definition, event.fingerprint, event.folder
    memory.critiques = event.critiques
    memory.started_at = turn.at
    if plan:
        adopt(memory, plan)
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
    return PLANNING if memory.left(event) else take_plan(memory, event, turn)


# -- while steps are under way ---------------------------------------------------------------------


_WORKING = {
    EXECUTING: (OBSERVING, WAITING, FAILED, PARALLEL, CONFIRMING),
    PARALLEL: (OBSERVING, WAITING, FAILED, CONFIRMING),
    WAITING: (EXECUTING, FAILED, PARALLEL),
    CONFIRMING: (EXECUTING, FAILED, PARALLEL),
}
"""Where the states lead in which steps are under way, or wait."""


def _work(memory: LoopMemory, state: State, turn: Turn) -> State | None:
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
        changed = start_ready(memory, turn) or standing(memory) is not state or changed
    return _go_on(memory, state) if changed else None


def _go_on(memory: LoopMemory, state: State) -> State:
    target = standing(memory)
    if target is state:
        return state
    # Whoever waited goes back to work first; what follows from there is for the Drained after it.
    return memory.enter(target if state in (EXECUTING, PARALLEL) else memory.home)


def _working_in(state: State) -> dict[type[Event], Row]:
    """Rows of a state in which steps are under way, or wait."""

    def drained(memory: LoopMemory, event: Drained, turn: Turn) -> State | None:
        return _work(memory, state, turn)

    def taken(memory: LoopMemory, event: WorkerEnded | ModelReplied | ToolReturned | ChildEnded, turn: Turn) -> State:
        if memory.left(event):
            return state
        take_outcome(memory, event, turn)
        return _go_on(memory, state)

    def answered(memory: LoopMemory, event: Answered, turn: Turn) -> State:
        if event.withdrawn and memory.left(event):
            return state
        take_answer(memory, event, turn)
        return _go_on(memory, state)

    def rested(memory: LoopMemory, event: ChildRested, turn: Turn) -> State | None:
        return _go_on(memory, state) if event.of in memory.children() and note_rest(memory.resting, event) else None

    targets = _WORKING[state]
    onward = [target for target in targets if target is not FAILED]
    return {
        Drained: row(drained, *targets, internal=True),
        **{outcome: row(taken, *onward, internal=True) for outcome in (WorkerEnded, ModelReplied, ToolReturned, ChildEnded)},
        ChildRested: row(rested, *onward, internal=True),
        Answered: row(answered, *onward, internal=True),
    }


# -- OBSERVING, REFLECTING -------------------------------------------------------------------------


def _observed(memory: LoopMemory, event: Drained, turn: Turn) -> State | None:
    if past := past_bound(memory, turn):
        return fail(memory, *past, turn)
    if memory.paused:
        return None
    observe(memory)
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
    return REFLECTING if memory.left(event) else take_said(memory, event, turn)


# -- in more than one state ------------------------------------------------------------------------


def _cancelled(memory: LoopMemory, event: Cancel, turn: Turn) -> State:
    memory.code = "cancelled"
    memory.reason = f"cancelled by {turn.actor}" + (f": {event.reason}" if event.reason else "")
    stop(memory, turn)
    return CANCELLED


def _broke(memory: LoopMemory, event: Broke, turn: Turn) -> State:
    memory.left(event)
    return fail(memory, "defect", f"{event.event} could not be taken: {event.reason}", turn)


def _stay(memory: LoopMemory, event: Drained, turn: Turn) -> None:
    """Terminal states stay what they are, and make no entry of it."""


def _noted_in(state: State) -> dict[type[Event], Row]:
    """What every state takes: what is journaled there and changes no state; and, while it has not ended, what ends it."""

    def claimed(memory: LoopMemory, event: Claimed, turn: Turn) -> State:
        memory.resting.clear()  # its children will say how they are
        return state

    def forked(memory: LoopMemory, event: Forked, turn: Turn) -> State:
        decide_anew(memory, event, turn)
        return state

    def paused(memory: LoopMemory, event: Pause, turn: Turn) -> State:
        memory.paused = True
        tell_children(memory.children(), event, turn)
        return state

    def unpaused(memory: LoopMemory, event: Unpause, turn: Turn) -> State:
        memory.paused, memory.allowance = False, None
        tell_children(memory.children(), event, turn)
        return state

    def stepped(memory: LoopMemory, event: StepOnce, turn: Turn) -> State:
        memory.paused, memory.allowance = False, 1
        return state

    def left(memory: LoopMemory, event: Outcome, turn: Turn) -> State:
        if isinstance(event, Answered) and not event.withdrawn:
            raise not_asked(event)
        memory.left(event)
        return state

    rows: dict[type[Event], Row] = {Claimed: row(claimed), Forked: row(forked), **{outcome: row(left) for outcome in OUTCOMES}}
    if state in (COMPLETE, FAILED, CANCELLED):
        return {**rows, Drained: row(_stay), Broke: row(left)}
    return {
        **rows,
        Pause: row(paused),
        Unpause: row(unpaused),
        StepOnce: row(stepped),
        Cancel: row(_cancelled, CANCELLED),
        Broke: row(_broke, FAILED),
    }


ORCHESTRATION_LOOP: Machine[LoopMemory] = Machine(
    "orchestration loop",
    states=State,
    initial=PLANNING,
    table={
        PLANNING: {
            **_noted_in(PLANNING),
            LoopSubmitted: row(_submitted, EXECUTING, internal=True),
            Drained: row(_plan, FAILED, internal=True),
            PlanMade: row(_planned, EXECUTING, FAILED, internal=True),
        },
        EXECUTING: {**_noted_in(EXECUTING), **_working_in(EXECUTING)},
        OBSERVING: {**_noted_in(OBSERVING), Drained: row(_observed, REFLECTING, FAILED)},
        REFLECTING: {
            **_noted_in(REFLECTING),
            Drained: row(_reflect, FAILED, internal=True),
            Reflected: row(_said, PLANNING, EXECUTING, FAILED, internal=True),
            Synthesized: row(_said, COMPLETE, FAILED, internal=True),
            Critiqued: row(_said, COMPLETE, FAILED, internal=True),
        },
        WAITING: {**_noted_in(WAITING), **_working_in(WAITING)},
        COMPLETE: _noted_in(COMPLETE),
        FAILED: _noted_in(FAILED),
        PARALLEL: {**_noted_in(PARALLEL), **_working_in(PARALLEL)},
        CONFIRMING: {**_noted_in(CONFIRMING), **_working_in(CONFIRMING)},
        CANCELLED: _noted_in(CANCELLED),
    },
    effects=(MakePlan, RunWorker, Reflect, Synthesize, Critique, AskModel, CallTool, StartChild, Relay, Ask, Withdraw),
    memory=LoopMemory,
    requests=REQUESTS,
)

TRANSITIONS: Mapping[State, frozenset[State]] = {
    State(state): frozenset(map(State, targets)) for state, targets in ORCHESTRATION_LOOP.matrix().items()
}
"""State -> next states: the seven of the contract, and the three of the extension."""

FINGERPRINT = hashlib.sha256(
    "\n".join(
        f"{state} {event.__name__} {sorted(found.to)} {found.internal}"
        for state, rows in ORCHESTRATION_LOOP.table.items()
        for event, found in sorted(rows.items(), key=lambda item: item[0].__name__)
    ).encode()
).hexdigest()[:16]
"""Of the table; a run keeps that of the table it was begun under."""
