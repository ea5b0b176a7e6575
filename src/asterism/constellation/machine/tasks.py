"""Starting and ending attempts, and what follows from the answers to questions about them."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from typing import Any

import msgspec

from asterism.constellation.machine.child_runs import child_for, is_child
from asterism.constellation.machine.device_events import why_changed
from asterism.constellation.machine.events import AttemptEnded, Dispatch
from asterism.constellation.machine.guarding import GUARDED, approval_elsewhere, is_remote, note_edited, note_unused_approval, permit_task
from asterism.constellation.machine.items import count, count_end, fan_out
from asterism.constellation.machine.memory import (
    DEVICE,
    EXTENDED,
    Awaiting,
    ConstellationMemory,
)
from asterism.constellation.machine.questions import (
    MAX_LEGS,
    approved,
    approved_by,
    ask_to_start,
    begin_leg,
    check_reply,
    check_result,
    edited,
    may_have_happened,
    named,
    put_device_question,
)
from asterism.constellation.machine.stopping import DETACHED_BY, cancel_attempt, may_run_elsewhere, stop_attempt
from asterism.constellation.machine.task_coupling import TaskSchedule, move_task
from asterism.constellation.machine.task_lifecycle import Completed, Failed, Released, Retried, Skipped, Started, Stopped
from asterism.constellation.machine.waits import begin_wait, end_by_event, end_waits
from asterism.constellation.model.condition import InputCondition
from asterism.constellation.model.documents import HANDLERS
from asterism.constellation.model.nesting import nested_plan
from asterism.constellation.model.parameters import values_of
from asterism.constellation.model.resolution import arguments_of, fallback_devices, names_errors, predecessor_results, wait_of
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.constellation.model.wait import values_for
from asterism.devices.model.attempt import TaskError, task_error, text_of
from asterism.devices.model.references import INDEX, ITEM, PARAMS, RUN, MissingReference
from asterism.engine.control.guarding import start_child
from asterism.engine.control.inquiries import INTERRUPTION, is_expired
from asterism.engine.control.run_control import Answered
from asterism.engine.control.waits import EventTaken, WaitFor
from asterism.engine.kernel.data import round_trip
from asterism.engine.kernel.guards import Permit
from asterism.engine.kernel.machine import Event, RecoveryPolicy, StepContext
from asterism.engine.kernel.phrase import Text, phrase
from asterism.engine.kernel.times import time_of
from asterism.errors import InvalidInput

MAX_LOSSES = 10
"""Attempts of one task that may be lost with their device before the task fails."""
QUEUES_KNOWN = 4
"""Rules from which on an attempt says whether it is queued."""
INTERRUPTED_REPEATED = 7
"""Rules from which on an interrupted attempt of an idempotent skill is performed again."""


# -- starting --------------------------------------------------------------------------------------


def advance(memory: ConstellationMemory, schedule: TaskSchedule, context: StepContext) -> bool:
    """Skip tasks that can never start and start ready ones, until there is none; return True if anything changed."""
    changed = False
    while skip_unsatisfiable(memory, schedule, context) or _start_ready(memory, schedule, context):
        changed = True  # bounded: each iteration starts or ends a task
    return changed


def _start_ready(memory: ConstellationMemory, schedule: TaskSchedule, context: StepContext) -> bool:
    """Start every ready task, those with higher priority first; return True if anything changed."""
    if memory.paused or not schedule.startable:
        return False
    held, ended = memory.held(), len(memory.batch)
    tasks, ordinal = schedule.constellation.tasks, schedule.constellation.ordinal
    ready = [tasks[task_id] for task_id in schedule.startable if task_id not in held]
    ready.sort(key=lambda task: (-task.priority, ordinal(task.task_id)))
    changed = False
    for task in ready:
        if task.not_before <= context.at and task.status is TaskStatus.PENDING:
            start = _start if task.for_each is None else _fan_out
            changed = start(memory, schedule, task, context) or changed
            if len(memory.batch) > ended:
                break  # a task has ended without an attempt, and the others may have to wait for the planner
    return changed


def _fan_out(memory: ConstellationMemory, schedule: TaskSchedule, task: TaskStar, context: StepContext) -> bool:
    ended = fan_out(memory, schedule, task, _scopes(memory, task, context), context)
    if ended is not None:
        settle_task(memory, schedule, task, ended, context)
    _note_moved(memory, task, context)
    return True


def _start(memory: ConstellationMemory, schedule: TaskSchedule, task: TaskStar, context: StepContext) -> bool:
    if task.device in memory.lost_devices:
        fallback = next((device for device in fallback_devices(task, memory.fleet) if device not in memory.lost_devices), None)
        if fallback is None:
            return _fail_if_removed(memory, schedule, task, context)
        task.device = fallback
        if context.rules >= GUARDED and not task.approved:
            task.approved = approval_elsewhere(memory.guards, task)  # a yes to a plan, edits, or this run was to the device that they name
    try:
        arguments, wait = _arguments(memory, task, context), _wait(memory, task, context)
        if task.device in memory.changed_devices and (changed := why_changed(memory.fleet[task.device], task, arguments)):
            settle_task(memory, schedule, task, Failed(error=TaskError(code="bad_arguments", why=changed)), context)
            return True
    except InvalidInput as error:
        settle_task(memory, schedule, task, Failed(error=TaskError(code="bad_arguments", message=str(error))), context)
        return True
    except MissingReference as missing:
        lacks = TaskError(code="no_result", why=missing.why)
        settle_task(memory, schedule, task, Failed(error=lacks) if task.item_of else Skipped(error=lacks), context)
        return True
    if task.when and not task.started_at:
        met, why = _met(memory, task, arguments, context)
        if not met:
            settle_task(memory, schedule, task, Skipped(error=task_error("unsatisfied", why)), context)
            return True
    if task.wait is not None and wait is not None:
        values = values_for(task.wait.match, arguments, memory.params)
        begin_wait(memory, schedule, task, msgspec.structs.replace(wait, values=values), context)
        _note_moved(memory, task, context)
    else:
        _begin(memory, schedule, task, _attempt(memory, task, arguments), context)
    return True


def _begin(memory: ConstellationMemory, schedule: TaskSchedule, task: TaskStar, attempt: Dispatch, context: StepContext) -> None:
    """Begin an attempt as far as the guards permit: refuse it, ask a person, or start it."""
    guarded = context.rules >= GUARDED
    permitted = permit_task(memory.guards, task, attempt.arguments) if guarded else Permit(approval=task.requires_approval)
    if permitted.refusal:
        settle_task(memory, schedule, task, Failed(error=task_error("guarded", permitted.refusal)), context)
        return
    # An approval holds for exactly what was shown, so not for a fallback device.
    if (permitted.approval or task.approved) and task.approved != approved(memory, attempt, context):
        ask_to_start(memory, schedule, task, attempt, context)
        _note_moved(memory, task, context)
        return
    if guarded and task.approved:
        attempt = msgspec.structs.replace(attempt, approval=task.approved)
    if is_child(memory, attempt):
        child = child_for(memory, task, attempt, context)
        effect = start_child(
            memory,
            child,
            context,
            concerned_by=task.concerned_by,
            is_approved=bool(attempt.approval),
            is_foreign=task.is_foreign,
            started_by=(task.device, task.resolved_skill),
        )
    else:
        if context.rules >= QUEUES_KNOWN and not memory.has_free_place(attempt.device_id):
            attempt = msgspec.structs.replace(attempt, queued=True)
        effect = context.schedule(attempt)
    memory.add_attempt(effect, attempt)
    move_task(schedule, task, Started(effect_id=effect), context)
    _note_moved(memory, task, context)


def _fail_if_removed(memory: ConstellationMemory, schedule: TaskSchedule, task: TaskStar, context: StepContext) -> bool:
    """Fail a task whose device has left the fleet; return False if the device is lost, and the task waits for it."""
    if task.device in memory.fleet:
        return False
    why = phrase("device_left", device=task.device, skill=task.resolved_skill)
    settle_task(memory, schedule, task, Failed(error=TaskError(code="no_device", why=why)), context)
    return True


def _arguments(memory: ConstellationMemory, task: TaskStar, context: StepContext) -> dict[str, Any]:
    """Return the arguments of an attempt.

    Raises:
        MissingReference: a value that it refers to is missing.
        InvalidInput: a value does not fit the parameters of a nested plan.
    """
    extended, scopes = context.rules >= EXTENDED, _scopes(memory, task, context)
    arguments = arguments_of(task, memory.constellation, memory.fleet, memory.inputs, scopes=scopes if extended else {}, extended=extended)
    if task.constellation is not None and (params := nested_plan(task).params):
        values_of(params, {name: arguments[name] for name in params if name in arguments})
    # An error has its words from this version; another one may have others
    return context.side_effect(f"arguments of {task.task_id}", lambda: arguments) if names_errors(task, memory.constellation) else arguments


def _wait(memory: ConstellationMemory, task: TaskStar, context: StepContext) -> WaitFor | None:
    """Return the wait of a task; None for a task that does not wait. Raises as ``_arguments`` does."""
    if task.wait is None:
        return None
    if task.wait.event:
        return WaitFor(about=task.task_id, event=task.wait.event, match=task.wait.match)
    if task.wait.for_s is not None:
        return WaitFor(about=task.task_id, until=context.at + task.wait.for_s)
    given = wait_of(task, memory.constellation, memory.inputs, scopes=_scopes(memory, task, context))
    return WaitFor(about=task.task_id, until=max(context.at, time_of(given, f"{task.task_id}.wait.until")))


def _scopes(memory: ConstellationMemory, task: TaskStar, context: StepContext) -> dict[str, Any]:
    """Return the values of the names that are no task's."""
    scopes: dict[str, Any] = {PARAMS: memory.params}
    if task.item_of:
        scopes |= {ITEM: task.item, INDEX: task.index}
    if (end := memory.concluding) and RUN in memory.constellation.referring.get(task.item_of or task.task_id, ()):
        run_id = context.side_effect("run id", lambda: context.run_id)  # a fork replays these entries under another id
        outcome = end.code if end.code in ("finished", "cancelled") else "failed"
        scopes[RUN] = {"error": str(end.reason) or None, "outcome": outcome, "id": run_id}
    return scopes


def _met(memory: ConstellationMemory, task: TaskStar, arguments: dict[str, Any], context: StepContext) -> tuple[bool, Text]:
    """Return if the ``when`` of a task is met, and else the reason; recorded, as the evaluation of a condition is."""

    def evaluation() -> Any:
        return round_trip(InputCondition(task.when).evaluate(arguments, memory.params))

    return msgspec.convert(context.side_effect(f"when of {task.task_id}", evaluation), tuple[bool, Text])


def _recovery(memory: ConstellationMemory, task: TaskStar) -> RecoveryPolicy:
    profile = memory.fleet.get(task.device)
    skill = profile.skill(task.resolved_skill) if profile is not None else None
    if skill is not None and skill.idempotent:
        return RecoveryPolicy.RETRY_SAME_KEY
    return RecoveryPolicy.REATTACH if profile is not None and profile.reattach else RecoveryPolicy.DO_NOT_RETRY


def _attempt(memory: ConstellationMemory, task: TaskStar, arguments: dict[str, Any]) -> Dispatch:
    tasks, before = memory.constellation.tasks, memory.constellation.predecessors(task.item_of or task.task_id)
    have_completed = all(tasks[source].status is TaskStatus.COMPLETED for source in before)
    return Dispatch(
        task_id=task.task_id,
        device_id=task.device,
        skill=task.resolved_skill,
        description=task.description or task.name,
        arguments=arguments,
        number=task.attempts + 1,
        priority=task.priority,
        timeout_s=task.timeout_s,
        deadline=None if task.deadline_s is None else memory.started_at + task.deadline_s,
        recovery=_recovery(memory, task),
        plan=task.constellation,
        sources=None if have_completed else tuple(predecessor_results(task, memory.constellation)),
        env=task.env,
        task_folder=task.folder,
    )


# -- people ----------------------------------------------------------------------------------------


def take_answer(memory: ConstellationMemory, schedule: TaskSchedule, event: Answered, context: StepContext) -> None:
    """Apply a person's answer.

    Raises:
        Refused: the task, or the device, does not accept it; nothing has changed.
    """
    inquiry, attempt = memory.inquiries[event.effect_id], memory.questions[event.effect_id]
    kind = inquiry.kind
    if event.verb == "respond" and kind == DEVICE:
        check_reply(inquiry.schema, event.value, attempt.device_id)
    elif event.verb == "respond":
        check_result(memory, attempt, event.value)
    task = schedule.constellation.tasks[attempt.task_id]
    if event.verb == "edit" and kind != DEVICE:
        attempt = edited(memory, attempt, event.value, context)
        if context.rules >= GUARDED:
            note_edited(memory, task, is_foreign=is_remote(context))
        task.inputs = {**task.inputs, **event.value}  # a retry uses the approved arguments, too
        task.is_foreign = task.is_foreign or is_remote(context)
        schedule.constellation.inputs_changed(task.task_id)
    del memory.questions[event.effect_id]
    if kind == DEVICE and event.verb != "cancel":
        begin_leg(memory, schedule, attempt, event, context)
    elif event.verb in ("approve", "edit"):
        task.approved = approved_by(inquiry, attempt, context)
        move_task(schedule, task, Released(), context)
    elif event.verb == "respond":
        settle_task(memory, schedule, task, Completed(result=event.value), context)
    else:
        error = TaskError(code="rejected", why=phrase("said_no", by=context.actor, because=event.reason))
        if kind == DEVICE:
            stop_attempt(memory, attempt.first, attempt, context)
        settled: Event = Failed(error=error) if kind == INTERRUPTION else Stopped(error=error)
        settle_task(memory, schedule, task, settled, context)


# -- ending ----------------------------------------------------------------------------------------


def take_end(memory: ConstellationMemory, schedule: TaskSchedule, event: AttemptEnded, context: StepContext) -> None:
    """Handle the end of an attempt: end its task, retry it, or ask a person."""
    attempt, never_began = memory.attempts[event.effect_id], memory.never_began(event.effect_id)
    key, may_run = attempt.key(event.effect_id), may_run_elsewhere(memory, event.effect_id, attempt)
    memory.remove_attempt(event.effect_id)
    task = schedule.constellation.tasks[attempt.task_id]
    error = event.error
    if error is None and event.question is not None:
        if attempt.leg < MAX_LEGS:
            put_device_question(memory, schedule, msgspec.structs.replace(attempt, first=key), event.question, context)
            _wake_at_passed_deadline(memory, attempt, task, context)
            return
        error = TaskError(code="bad_result", why=phrase("only_questions", device=attempt.device_id, count=MAX_LEGS))
    if may_run and error is not None and (error.code in DETACHED_BY or event.question is not None):
        stop_attempt(memory, key, attempt, context)
    memory.handles.pop(key, None)
    repeatable = never_began or attempt.repeatable
    losses = ("device_lost", "interrupted") if never_began or context.rules >= INTERRUPTED_REPEATED else ("device_lost",)
    if error is None:
        settle_task(memory, schedule, task, Completed(result=event.result), context)
    elif error.code == "cancelled":
        settle_task(memory, schedule, task, Stopped(error=error), context)
    elif error.code in losses and repeatable and task.attempts < MAX_LOSSES:
        move_task(schedule, task, Retried(error=error, not_before=context.at), context)
    elif task.retry.retries(error.code, repeatable=repeatable) and task.attempts < task.retry.max_attempts:
        not_before = context.at + _backoff_s(task, event.effect_id, context)
        memory.wake_up_at(not_before)
        move_task(schedule, task, Retried(error=error, not_before=not_before), context)
    elif error.code in ("interrupted", "device_lost") and not never_began:
        prompt = phrase("repeat_task", **named(task), device=attempt.device_id, why=text_of(error))
        may_have_happened(memory, schedule, attempt, prompt, context)
    else:
        settle_task(memory, schedule, task, Failed(error=error), context)
    _wake_at_passed_deadline(memory, attempt, task, context)


def _wake_at_passed_deadline(memory: ConstellationMemory, attempt: Dispatch, task: TaskStar, context: StepContext) -> None:
    """Expire a task whose deadline passed during the attempt, when the dispatcher enforced it."""
    if attempt.deadline is not None and attempt.deadline <= context.at and not task.settled:
        memory.wake_up_at(attempt.deadline)


def _backoff_s(task: TaskStar, effect_id: str, context: StepContext) -> float:
    """Return the wait before the next attempt, in seconds: exponential backoff with equal jitter.

    The jitter is a hash of the effect's id. It is recorded, because a fork has other ids and must
    wait as long.
    """

    def random_fraction() -> float:
        return zlib.crc32(effect_id.encode()) / 2**33

    wait_s = min(task.retry.max_backoff_s, task.retry.backoff_s * 2.0 ** min(task.attempts - 1, 30))
    jitter = context.side_effect("jitter", random_fraction)
    return wait_s * (0.5 + jitter)


def take_event(memory: ConstellationMemory, schedule: TaskSchedule, event: EventTaken, context: StepContext) -> None:
    """Complete the task that has waited for an event, with its data."""
    task, ended = end_by_event(memory, schedule, event)
    settle_task(memory, schedule, task, ended, context)


def settle_task(memory: ConstellationMemory, schedule: TaskSchedule, task: TaskStar, event: Event, context: StepContext) -> None:
    """Settle a task and add it to those that the planner is to consider; of items it considers their task."""
    note_unused_approval(task, context)
    move_task(schedule, task, event, context)
    if task.item_of:
        if (ended := count_end(memory, schedule, task, context)) is not None:
            settle_task(memory, schedule, schedule.constellation.tasks[task.item_of], ended, context)
        return
    if task.status is TaskStatus.SKIPPED or memory.concluding:
        return
    memory.unseen[task.task_id] = None
    _note_moved(memory, task, context)
    if isinstance(memory.planning, Awaiting):
        memory.planning.ended_since = True
    if _needs_replanning(memory, schedule, task):
        memory.batch[task.task_id] = None


def _note_moved(memory: ConstellationMemory, task: TaskStar, context: StepContext) -> None:
    # Moves before the planner was asked are in the request itself
    if isinstance(memory.planning, Awaiting) and memory.planning.asked_at < context.seq and not task.item_of:
        memory.planning.moved[task.task_id] = None


def _needs_replanning(memory: ConstellationMemory, schedule: TaskSchedule, task: TaskStar) -> bool:
    if memory.options.replan == "never" or memory.asks >= memory.options.max_asks:
        return False
    if memory.options.replan == "always" or task.status is not TaskStatus.COMPLETED:
        return True
    asked_for = isinstance(task.result, dict) and bool(task.result.get("replan"))
    unmet = any(line.verdict is not None and not line.verdict.satisfied for line in schedule.constellation.lines_out(task.task_id))
    return asked_for or unmet


def skip_unsatisfiable(memory: ConstellationMemory, schedule: TaskSchedule, context: StepContext) -> bool:
    """Skip tasks that can never start, unless the planner has yet to decide about the cause.

    Return True if anything changed.
    """
    if not schedule.unsatisfiable:
        return False
    open_batches = {*memory.open_request.batch, *memory.batch}
    changed, progress = False, True
    while progress:  # bounded: each iteration ends a task
        progress = False
        for task_id in tuple(schedule.unsatisfiable):
            lines = [line for line in schedule.constellation.lines_in(task_id) if line.verdict is not None and not line.verdict.satisfied]
            task = schedule.constellation.tasks[task_id]
            final = [line.verdict.reason for line in lines if line.source not in open_batches and line.verdict is not None]
            if final and (task.join == "all" or len(final) == len(lines)):
                why = final[0] if task.join == "all" else phrase("none_satisfied", reasons=final)
                settle_task(memory, schedule, task, Skipped(error=task_error("unsatisfied", why)), context)
                progress = changed = True
    return changed


def expire(memory: ConstellationMemory, schedule: TaskSchedule, context: StepContext) -> None:
    """Close questions that have expired, end waits that are over, and end unstarted tasks whose deadline has passed.

    A running attempt is ended at its deadline by the dispatcher of its device.
    """
    for inquiry, attempt in tuple(memory.questions.items()):
        if inquiry not in memory.questions:
            continue  # of an item, after another one has failed
        task = schedule.constellation.tasks[attempt.task_id]
        late = attempt.deadline is not None and attempt.deadline <= context.at
        if late or is_expired(memory, inquiry, context):
            cancel_attempt(memory, inquiry, context)
            # Without the id of the question: a task can refer to these words, and a fork has other ids
            limit_s = task.deadline_s if late else memory.options.inquiry_timeout_s
            why = phrase("unanswered_by_deadline" if late else "unanswered", limit_s=limit_s or 0.0)
            error = TaskError(code="deadline" if late else "rejected", why=why)
            settle_task(memory, schedule, task, Failed(error=error), context)
    for task, ended in end_waits(memory, schedule, context):
        settle_task(memory, schedule, task, ended, context)
    for task in schedule.constellation.in_order_with_items():
        if task.deadline_s is not None and task.editable and memory.started_at + task.deadline_s <= context.at:
            error = TaskError(code="deadline", why=phrase("not_started", limit_s=task.deadline_s))
            settle_task(memory, schedule, task, Failed(error=error), context)


def stop_all(
    memory: ConstellationMemory, schedule: TaskSchedule, why: Text, context: StepContext, roles: Collection[str] = ("task", *HANDLERS)
) -> None:
    """Cancel every task of these roles that has not ended, and its outstanding effect."""
    schedule.startable.clear()
    for task in schedule.constellation.in_order_with_items():
        if task.role not in roles:
            continue
        if task.effect_id:
            cancel_attempt(memory, task.effect_id, context, why)
        if not task.settled:
            note_unused_approval(task, context)
            move_task(schedule, task, Stopped(error=task_error("cancelled", why)), context)
            if task.item_of:
                count(schedule, task, context)
