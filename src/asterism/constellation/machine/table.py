"""The constellation agent's table: the only place that moves its state. It also has the moves of a fork."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from asterism.constellation.machine.child_runs import as_task_end
from asterism.constellation.machine.definition import MACHINE, first_event
from asterism.constellation.machine.device_events import note_begun, note_found, note_lost, note_progress, note_queued
from asterism.constellation.machine.events import (
    BUDGET,
    AskPlanner,
    AttemptAttached,
    AttemptBegun,
    AttemptEnded,
    AttemptLooked,
    AttemptProgressed,
    AttemptQueued,
    AttemptStopped,
    ConstellationAgentStatus,
    ConstellationSubmitted,
    Dispatch,
    Edited,
    LookAtAttempt,
    Planned,
    PlanningFailed,
    RaiseLimits,
    Retry,
    RunOptions,
    StopAttempt,
)
from asterism.constellation.machine.forks import approve_again, decide_again, leave_to_original, note_asked_again, void_approvals
from asterism.constellation.machine.guarding import GUARDED, note_edited_below, with_fleet, with_options
from asterism.constellation.machine.memory import (
    Awaiting,
    AwaitingApproval,
    ConstellationMemory,
    Deferred,
    NotPlanning,
    PlanRequest,
)
from asterism.constellation.machine.planner_requests import ask_planner, defer, raise_limits
from asterism.constellation.machine.planning import (
    ask_about_edited,
    drop_planning,
    expire_approval,
    take_approval,
    take_creation,
    take_edit,
    take_given,
    take_live_edit,
)
from asterism.constellation.machine.questions import look_at_due, look_now, note_looked
from asterism.constellation.machine.requests import REQUESTS
from asterism.constellation.machine.retry import retry_tasks
from asterism.constellation.machine.run_end import end, give_up, has_handlers, is_done, run_handlers
from asterism.constellation.machine.stopping import note_handle, note_stopped, stop_again
from asterism.constellation.machine.task_coupling import TaskSchedule
from asterism.constellation.machine.tasks import advance, expire, take_answer, take_end, take_event
from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.parameters import values_of
from asterism.devices.model.attempt import DeviceFound, DeviceLost
from asterism.engine.control.children import ChildEnded
from asterism.engine.control.common_rows import (
    DEFECT,
    RunControl,
    cancels_to,
    define_machine,
    fails_to,
)
from asterism.engine.control.guarding import begun
from asterism.engine.control.run_control import (
    Answered,
    BatchEnded,
    Cancel,
    Forked,
    Imported,
    OwnershipAcquired,
    TransitionFailed,
    Unpause,
)
from asterism.engine.control.waits import EventTaken, WaitEnded, WaitFor
from asterism.engine.kernel.guards import Guards
from asterism.engine.kernel.machine import Machine, StepContext, row
from asterism.engine.kernel.phrase import phrase
from asterism.errors import InvalidInput, Refused

Status = ConstellationAgentStatus
START, CONTINUE, FINISH, FAIL = Status.START, Status.CONTINUE, Status.FINISH, Status.FAIL


# -- START -----------------------------------------------------------------------------------------


def _submitted(memory: ConstellationMemory, event: ConstellationSubmitted, context: StepContext) -> Status:
    if memory.started_at:
        raise Refused(phrase("submitted_already"))
    memory.fleet = {profile.device_id: profile for profile in event.fleet}
    memory.started_at, memory.inputs, memory.options = context.at, event.inputs, event.options
    given = with_fleet(begun(event.guards, context), memory.fleet) if context.rules >= GUARDED else event.guards
    memory.guards = with_options(given, event.options)
    state = START
    if event.plan is not None:
        try:
            memory.params = _params(event.plan, event)
            state = take_given(memory, event.plan, context)
        except EditRefused:
            memory.fleet, memory.started_at, memory.inputs, memory.params, memory.options = {}, 0.0, {}, {}, RunOptions()
            memory.guards = Guards()
            raise
    memory.request, memory.previous_rounds = event.request, event.previous_rounds
    memory.working_directory, memory.fleet_file = event.working_directory, event.fleet_file
    context.touch("device", *memory.fleet)
    return state


def _params(plan: PlanDocument, event: ConstellationSubmitted) -> dict[str, Any]:
    given = event.params or {name: value for name, value in event.inputs.items() if name in plan.params}
    try:
        return values_of(plan.params, given)
    except InvalidInput as error:
        raise EditRefused("bad_argument", "params", str(error)) from None


def _plan_when_settled(memory: ConstellationMemory, event: BatchEnded, context: StepContext) -> Status | None:
    if failed := _out_of_time(memory, context):
        return failed
    passed = memory.timers_due(context.at)  # including those of an archived constellation
    if passed and (state := expire_approval(memory, context)):
        return state
    if memory.paused or context.abandoned or isinstance(memory.planning, Awaiting):
        return START if passed else None
    counted = isinstance(memory.planning, Deferred) and memory.planning.counted
    if memory.asks >= memory.options.max_asks and not counted:
        return give_up(memory, "asks", phrase("asked_too_often", count=memory.asks), context)
    ask_planner(memory, context)
    return START


def _created(memory: ConstellationMemory, event: Planned, context: StepContext) -> Status:
    return take_creation(memory, event, context)


def _not_created(memory: ConstellationMemory, event: PlanningFailed, context: StepContext) -> Status:
    if event.code == BUDGET:
        defer(memory, memory.open_request, event.reason, counted=True)
        return START
    memory.planning = NotPlanning()
    return give_up(memory, event.code, event.reason, context)


# -- CONTINUE --------------------------------------------------------------------------------------


def _batch_ended(memory: ConstellationMemory, event: BatchEnded, context: StepContext) -> Status | None:
    """Evaluate the run: its time limit, its timers, its open decision, its tasks, and then its end.

    A run that concludes runs its handlers instead. No entry is made if nothing has changed.
    """
    schedule = _schedule(memory)
    if not memory.concluding and (late := _out_of_time(memory, context)):
        return _then_handlers(memory, late, context)
    # A timer that fires makes an entry; without it a replay would fire again
    changed = memory.timers_due(context.at)
    if changed:
        expire(memory, schedule, context)
        expire_approval(memory, context)
        look_at_due(memory, context)
    if memory.concluding:
        return run_handlers(memory, memory.concluding, context, changed=changed)
    # A person approves what they were shown, so an edit in between makes it another question
    changed = ask_about_edited(memory, schedule, context) or changed
    # Asked before tasks start, so that its batch holds back what depends on it; asked again after them,
    # because a task can end without an attempt: its list is empty, or its arguments are refused
    changed = _ask_if_due(memory, context) or changed
    changed = advance(memory, schedule, context) or changed
    changed = _ask_if_due(memory, context) or changed
    if not is_done(memory, schedule):
        return CONTINUE if changed else None
    # The planner sees the last results before the end, even if nothing in them called for a change
    is_unseen = memory.options.replan == "when_needed" and bool(memory.unseen)
    if memory.paused and (is_unseen or has_handlers(memory)):
        return CONTINUE if changed else None  # a request or a handler would begin, and a paused run begins nothing
    if is_unseen and memory.asks < memory.options.max_asks:
        ask_planner(memory, context, PlanRequest(batch=tuple(memory.unseen)))
        return CONTINUE
    return _then_handlers(memory, end(memory, schedule, context), context)


def _ask_if_due(memory: ConstellationMemory, context: StepContext) -> bool:
    """Ask the planner what is deferred, or about the tasks that have ended; return True if so. A paused run asks nothing."""
    is_due = isinstance(memory.planning, Deferred) or (isinstance(memory.planning, NotPlanning) and memory.batch)
    if memory.paused or not is_due:
        return False
    ask_planner(memory, context)
    return True


def _then_handlers(memory: ConstellationMemory, state: Status, context: StepContext) -> Status | None:
    """Begin the handlers of a run that this step has ended; return the state after it."""
    return run_handlers(memory, memory.concluding, context, changed=True) if memory.concluding else state


def _edited(memory: ConstellationMemory, event: Planned, context: StepContext) -> Status:
    return take_edit(memory, _schedule(memory), event, context)


def _edited_live(memory: ConstellationMemory, event: Edited, context: StepContext) -> Status:
    take_live_edit(memory, _schedule(memory), event, context)
    return CONTINUE


def _not_edited(memory: ConstellationMemory, event: PlanningFailed, context: StepContext) -> Status:
    if event.code == BUDGET:
        defer(memory, memory.open_request, event.reason, counted=True)
    else:
        drop_planning(memory, _schedule(memory), context)
    return CONTINUE


def _task_ended(memory: ConstellationMemory, event: AttemptEnded | ChildEnded, context: StepContext) -> Status:
    if isinstance(event, ChildEnded):
        attempt = memory.attempts[event.effect_id]
        if event.edited and context.rules >= GUARDED:
            note_edited_below(memory, memory.constellation.tasks[attempt.task_id], is_foreign=event.edited == "foreign")
        event = as_task_end(event, attempt, context.at)
    take_end(memory, _schedule(memory), event, context)
    return CONTINUE


def _answered(memory: ConstellationMemory, event: Answered, context: StepContext) -> Status:
    if isinstance(memory.planning, AwaitingApproval) and memory.planning.effect_id == event.effect_id:
        return take_approval(memory, memory.planning.proposed, event, context)
    take_answer(memory, _schedule(memory), event, context)
    return CONTINUE


def _event_taken(memory: ConstellationMemory, event: EventTaken, context: StepContext) -> Status:
    take_event(memory, _schedule(memory), event, context)
    return CONTINUE


# -- in more than one state ------------------------------------------------------------------------


def _cancelled(memory: ConstellationMemory, event: Cancel, context: StepContext) -> Status:
    return give_up(memory, "cancelled", phrase("run_cancelled", by=context.actor, why=event.reason), context)


def _transition_failed(memory: ConstellationMemory, event: TransitionFailed, context: StepContext) -> Status:
    return give_up(memory, DEFECT, phrase("run_defect", event=event.event, why=event.reason), context)


def _not_editable(memory: ConstellationMemory, event: Edited, context: StepContext) -> Status:
    if memory.code:
        raise EditRefused("ended", "run", phrase("ended_for_edits", outcome=memory.outcome()))
    raise EditRefused("no_constellation", "run", phrase("being_planned"))


def _stay(memory: ConstellationMemory, event: BatchEnded, context: StepContext) -> None:
    """Make no entry in a terminal state."""


def _ownership_acquired(memory: ConstellationMemory, event: OwnershipAcquired, context: StepContext) -> None:
    memory.recovered = {effect_id: None for effect_id in event.retried if effect_id in memory.attempts}
    context.touch("device", *memory.lost_devices)
    look_now(memory, context)
    stop_again(memory, context)
    memory.lost_devices.clear()  # the new owner marks lost devices again (``Driver.initial_events``)


def _forked(memory: ConstellationMemory, event: Forked, context: StepContext) -> None:
    memory.postpone(event.idle_s, context)
    if context.rules >= GUARDED:
        void_approvals(memory)
    leave_to_original(memory, context)
    if memory.schedule and context.state is CONTINUE:
        decide_again(memory, memory.schedule, event, context)


def _imported(memory: ConstellationMemory, event: Imported, context: StepContext) -> None:
    approve_again(memory, context)


def _unpaused(memory: ConstellationMemory, event: Unpause, context: StepContext) -> None:
    memory.paused, memory.limit = False, ""


def _wait_ended(memory: ConstellationMemory, event: WaitEnded, context: StepContext) -> StrEnum:
    return context.state  # whatever ended it has settled its task


def _event_too_late(memory: ConstellationMemory, event: EventTaken, context: StepContext) -> StrEnum:
    raise Refused(phrase("answer.not_open", inquiry=event.effect_id))


def _schedule(memory: ConstellationMemory) -> TaskSchedule:
    if memory.schedule is None:
        raise RuntimeError("CONTINUE without a constellation")
    return memory.schedule


def _out_of_time(memory: ConstellationMemory, context: StepContext) -> Status | None:
    """End a run past its wall limit; return None within it."""
    if not memory.started_at or context.at < memory.wall_end(context.at):
        return None
    return give_up(memory, "wall_limit", phrase("run_too_long", limit_s=memory.options.wall_limit_s), context)


CONSTELLATION_AGENT: Machine[ConstellationMemory] = define_machine(
    MACHINE,
    states=ConstellationAgentStatus,
    initial=START,
    table={
        START: {
            ConstellationSubmitted: row(_submitted, CONTINUE, internal=True),
            BatchEnded: row(_plan_when_settled, FAIL, internal=True),
            Planned: row(_created, CONTINUE, FAIL, internal=True),
            PlanningFailed: row(_not_created, FAIL, internal=True),
            Answered: row(_answered, CONTINUE, FAIL, internal=True),
        },
        CONTINUE: {
            BatchEnded: row(_batch_ended, CONTINUE, FINISH, FAIL),
            Planned: row(_edited, CONTINUE, FINISH, FAIL, START),
            PlanningFailed: row(_not_edited, CONTINUE),
            Edited: row(_edited_live, CONTINUE),
            AttemptEnded: row(_task_ended, CONTINUE),
            ChildEnded: row(_task_ended, CONTINUE),
            Answered: row(_answered, CONTINUE, FINISH, FAIL, START),
            EventTaken: row(_event_taken, CONTINUE),
            Cancel: row(_cancelled, CONTINUE, FINISH, FAIL),
            TransitionFailed: row(_transition_failed, CONTINUE, FINISH, FAIL),
        },
        FINISH: {BatchEnded: row(_stay, FINISH)},
        FAIL: {BatchEnded: row(_stay, FAIL)},
    },
    effects=(AskPlanner, Dispatch, LookAtAttempt, StopAttempt, WaitFor),
    memory=ConstellationMemory,
    requests=REQUESTS,
    control=RunControl(
        cancel=cancels_to(FAIL, give_up),
        defect=fails_to(FAIL, give_up),
        ownership_acquired=_ownership_acquired,
        forked=_forked,
        asked_again=note_asked_again,
        imported=_imported,
        unpaused=_unpaused,
    ),
    common={
        Edited: row(_not_editable),
        Retry: row(retry_tasks),
        AttemptAttached: row(note_handle),
        AttemptStopped: row(note_stopped),
        AttemptLooked: row(note_looked),
        WaitEnded: row(_wait_ended),
        EventTaken: row(_event_too_late),
    },
    while_live={
        RaiseLimits: row(raise_limits),
        DeviceLost: row(note_lost),
        DeviceFound: row(note_found),
        AttemptProgressed: row(note_progress),
        AttemptBegun: row(note_begun),
        AttemptQueued: row(note_queued),
    },
    starts=first_event,
    rules=7,
)

ConstellationAgent = CONSTELLATION_AGENT
"""The public name of the machine."""
