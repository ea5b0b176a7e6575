"""The orchestration loop's table: the only place that moves its state.

Seven states and their edges are those of a sequential loop; PARALLEL, CONFIRMING and CANCELLED,
with their edges, extend it. New work starts only on BatchEnded. The result of a worker or
supervising function and the state that follows are in one entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from asterism.engine.control.children import ChildBlocked, ChildEnded, note_blocked
from asterism.engine.control.common_rows import RunControl, cancel_effect, cancels_to, define_machine, fails_to
from asterism.engine.control.guarding import begun
from asterism.engine.control.run_control import Answered, BatchEnded, Forked, Imported, Unpause
from asterism.engine.kernel.machine import Event, Machine, Row, StepContext, row
from asterism.engine.kernel.phrase import phrase
from asterism.errors import Refused
from asterism.loop.machine.effects import AskModel, CallTool, Critique, MakePlan, Reflect, RunWorker, Synthesize
from asterism.loop.machine.events import (
    Critiqued,
    LoopSubmitted,
    ModelReplied,
    PlanMade,
    Reflected,
    StepOnce,
    Synthesized,
    ToolReturned,
    WorkerEnded,
    first_event,
)
from asterism.loop.machine.inquiries import ask_about, expire, take_answer
from asterism.loop.machine.memory import GUARDED, Activity, Call, LoopMemory
from asterism.loop.machine.model import State
from asterism.loop.machine.planning import adopt, ask_for_plan, problem, take_plan, with_ids
from asterism.loop.machine.reflection import ask_supervisor, take_reply
from asterism.loop.machine.requests import REQUESTS
from asterism.loop.machine.steps import begin_steps, handle_result, observe, start_ready, state_now

PLANNING, EXECUTING, OBSERVING, REFLECTING = State.PLANNING, State.EXECUTING, State.OBSERVING, State.REFLECTING
WAITING, COMPLETE, FAILED = State.WAITING, State.COMPLETE, State.FAILED
PARALLEL, CONFIRMING, CANCELLED = State.PARALLEL, State.CONFIRMING, State.CANCELLED


# -- PLANNING --------------------------------------------------------------------------------------


def _submitted(memory: LoopMemory, event: LoopSubmitted, context: StepContext) -> State:
    if memory.started_at:
        raise Refused(phrase("submitted_already"))
    memory.workers = {profile.name: profile for profile in event.workers}
    plan = with_ids(memory, event.plan)
    if why := problem(memory, plan):
        memory.workers = {}
        raise Refused(why)
    memory.request, memory.context, memory.options = event.request, event.context, event.options
    memory.definition, memory.working_directory = event.definition, event.working_directory
    memory.has_critique = event.has_critique
    memory.started_at = context.at
    if context.rules >= GUARDED:
        memory.guards = begun(event.guards, context)
    if plan:
        adopt(memory, plan, context, is_given=True)
        return EXECUTING
    return PLANNING


def _plan(memory: LoopMemory, event: BatchEnded, context: StepContext) -> State | None:
    if past := memory.past_bound(context):
        return memory.fail(past, context)
    if memory.paused or memory.open_call:
        return None
    ask_for_plan(memory, context)
    return PLANNING


def _planned(memory: LoopMemory, event: PlanMade, context: StepContext) -> State:
    return take_plan(memory, event, context)


# -- while steps are carried out -------------------------------------------------------------------


def _worked(memory: LoopMemory, event: BatchEnded, context: StepContext) -> StrEnum | None:
    """Begin the next steps if none is active, and start the effects that can start."""
    if past := memory.past_bound(context):
        return memory.fail(past, context)
    changed = expire(memory, context)
    if not memory.active and not memory.paused:
        if stopped := begin_steps(memory, context):
            return stopped
        changed = True
        if memory.home is PARALLEL:
            memory.enter(PARALLEL)
    if not memory.paused:
        changed = start_ready(memory, context) or state_now(memory) is not context.state or changed
    return _go_on(memory, context) if changed else None


def _effect_ended(memory: LoopMemory, event: WorkerEnded | ModelReplied | ToolReturned | ChildEnded, context: StepContext) -> StrEnum:
    handle_result(memory, event, context)
    return _go_on(memory, context)


def _answered(memory: LoopMemory, event: Answered, context: StepContext) -> StrEnum:
    take_answer(memory, event, context)
    return _go_on(memory, context)


def _child_blocked(memory: LoopMemory, event: ChildBlocked, context: StepContext) -> StrEnum | None:
    return _go_on(memory, context) if event.effect_id in memory.children() and note_blocked(memory.blocked_children, event) else None


def _go_on(memory: LoopMemory, context: StepContext) -> StrEnum:
    target = state_now(memory)
    if target is context.state:
        return target
    # A waiting loop first returns to work; the BatchEnded after this entry handles the rest.
    return memory.enter(target if context.state in (EXECUTING, PARALLEL) else memory.home)


def _working(*targets: State) -> dict[type[Event], Row]:
    """Return the rows of a state with active steps; FAILED is reached only past a limit."""
    onward = [target for target in targets if target is not FAILED]
    return {
        BatchEnded: row(_worked, *targets, internal=True),
        **{result: row(_effect_ended, *onward, internal=True) for result in (WorkerEnded, ModelReplied, ToolReturned, ChildEnded)},
        ChildBlocked: row(_child_blocked, *onward, internal=True),
        Answered: row(_answered, *onward, internal=True),
    }


# -- OBSERVING, REFLECTING -------------------------------------------------------------------------


def _observed(memory: LoopMemory, event: BatchEnded, context: StepContext) -> State | None:
    if past := memory.past_bound(context):
        return memory.fail(past, context)
    if memory.paused:
        return None
    observe(memory, context)
    memory.stage, memory.critique = "reflect", ""
    entered = memory.enter(REFLECTING)
    return _ask(memory, context) or entered


def _reflect(memory: LoopMemory, event: BatchEnded, context: StepContext) -> State | None:
    if past := memory.past_bound(context):
        return memory.fail(past, context)
    return _ask(memory, context)


def _ask(memory: LoopMemory, context: StepContext) -> State | None:
    return None if memory.paused or memory.open_call else ask_supervisor(memory, context)


def _replied(memory: LoopMemory, event: Reflected | Synthesized | Critiqued, context: StepContext) -> State:
    return take_reply(memory, event, context)


# -- forks: outstanding work starts again if it is repeatable; else a person is asked --------------


def decide_again(memory: LoopMemory, event: Forked, context: StepContext) -> None:
    """Start repeatable work again, and ask a person about the rest.

    An approval that was used for outstanding work was given in the original, so that work needs a
    new one.
    """
    memory.started_at += event.idle_s
    memory.trusted.clear()
    if memory.open_call:
        cancel_effect(memory.open_call, context)
        memory.open_call = ""
    context.touch("task", *memory.active)
    for activity in memory.active.values():
        for call in activity.calls:
            if call.effect_id:
                _decide_call_again(memory, activity, call, event, context)
        if activity.effect_id:
            _decide_step_again(memory, activity, event, context)
    if context.rules >= GUARDED:
        _approve_again(memory, event.origin, context)


def _decide_step_again(memory: LoopMemory, activity: Activity, event: Forked, context: StepContext) -> None:
    if activity.effect_id not in context.abandoned:  # a child run's is cancelled already
        cancel_effect(activity.effect_id, context)
    activity.effect_id = ""
    profile = memory.workers[activity.worker]
    if not activity.rounds or context.rules < GUARDED:  # it asks by itself; but not a step that has begun
        activity.approved = ""
    if not profile.idempotent and not profile.converses:
        prompt = phrase("loop.forked_in_step", step=activity.step.step_id, origin=event.origin)
        ask_about(memory, activity, "interruption", prompt, context)


def _decide_call_again(memory: LoopMemory, activity: Activity, call: Call, event: Forked, context: StepContext) -> None:
    cancel_effect(call.effect_id, context)
    was_confirmed, call.effect_id, call.confirmed = call.confirmed, "", False
    if not call.asked.idempotent:
        prompt = phrase("loop.forked_in_call", tool=call.asked.tool, origin=event.origin)
        ask_about(memory, activity, "interruption", prompt, context, call=call)
    elif was_confirmed:
        prompt = phrase("loop.make_call", worker=activity.worker, tool=call.asked.tool, why="forked")
        ask_about(memory, activity, "confirmation", prompt, context, call=call)


def _asked_again(memory: LoopMemory, before: str, now: str, context: StepContext) -> None:
    memory.active[memory.inquiries[now].about].asking(before).inquiry_id = now


def _approve_again(memory: LoopMemory, origin: str, context: StepContext) -> None:
    """Void standing approvals, and ask again about steps and calls of which nothing is under way; ``origin`` is what a fork has copied."""
    memory.trusted.clear()
    memory.used.clear()
    for activity in memory.active.values():
        for call in activity.calls:
            if call.confirmed and not (call.done or call.effect_id or call.inquiry_id):
                call.confirmed = False
                prompt = phrase("loop.approve_call_again", tool=call.asked.tool, origin=origin)
                ask_about(memory, activity, "confirmation", prompt, context, call=call)
        if activity.approved and not (activity.settled or activity.effect_id or activity.inquiry_id):
            activity.approved = ""
            prompt = phrase("loop.approve_step_again", step=activity.step.step_id, origin=origin)
            ask_about(memory, activity, "approval", prompt, context)


def _imported(memory: LoopMemory, event: Imported, context: StepContext) -> None:
    context.touch("task", *memory.active)
    _approve_again(memory, "", context)


# -- in more than one state ------------------------------------------------------------------------


def _stepped(memory: LoopMemory, event: StepOnce, context: StepContext) -> StrEnum:
    memory.paused, memory.allowance = False, 1
    return context.state


def _unpaused(memory: LoopMemory, event: Unpause, context: StepContext) -> None:
    memory.paused, memory.allowance = False, None


ORCHESTRATION_LOOP: Machine[LoopMemory] = define_machine(
    "orchestration loop",
    states=State,
    initial=PLANNING,
    table={
        PLANNING: {
            LoopSubmitted: row(_submitted, EXECUTING, internal=True),
            BatchEnded: row(_plan, FAILED, internal=True),
            PlanMade: row(_planned, EXECUTING, FAILED, internal=True),
        },
        EXECUTING: _working(OBSERVING, WAITING, FAILED, PARALLEL, CONFIRMING),
        OBSERVING: {BatchEnded: row(_observed, REFLECTING, FAILED)},
        REFLECTING: {
            BatchEnded: row(_reflect, FAILED, internal=True),
            Reflected: row(_replied, PLANNING, EXECUTING, FAILED, internal=True),
            Synthesized: row(_replied, COMPLETE, FAILED, internal=True),
            Critiqued: row(_replied, COMPLETE, FAILED, internal=True),
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
    control=RunControl(
        cancel=cancels_to(CANCELLED, LoopMemory.give_up),
        defect=fails_to(FAILED, LoopMemory.give_up),
        forked=decide_again,
        asked_again=_asked_again,
        imported=_imported,
        unpaused=_unpaused,
    ),
    while_live={StepOnce: row(_stepped)},
    starts=first_event,
    rules=2,
)

TRANSITIONS: Mapping[State, frozenset[State]] = {
    State(state): frozenset(map(State, targets)) for state, targets in ORCHESTRATION_LOOP.matrix().items()
}
"""State -> next states: the seven of a sequential loop and the three that extend it."""
