"""The fork of a run: outstanding work starts again if it is repeatable; else a person is asked."""

from __future__ import annotations

from collections.abc import Collection

from asterism.constellation.machine.events import Dispatch, LookAtAttempt, StopAttempt
from asterism.constellation.machine.guarding import INTERRUPTED, approval_of_repeated
from asterism.constellation.machine.memory import DEVICE, AwaitingApproval, ConstellationMemory
from asterism.constellation.machine.questions import await_answer, may_have_happened
from asterism.constellation.machine.stopping import drop_effect
from asterism.constellation.machine.task_coupling import TaskSchedule, move_task
from asterism.constellation.machine.task_lifecycle import Retried
from asterism.constellation.machine.waits import wait_again
from asterism.constellation.model.task import TaskStatus
from asterism.devices.model.attempt import TaskError
from asterism.engine.control.common_rows import cancel_effect, is_child
from asterism.engine.control.run_control import Forked
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.phrase import Phrase, phrase


def leave_to_original(memory: ConstellationMemory, context: StepContext) -> None:
    """Forget the handles of attempts, and stop nothing: what runs elsewhere belongs to the original."""
    memory.handles.clear()
    memory.recovered.clear()
    memory.still_running.clear()
    memory.unstopped.clear()
    for effect_id, effect in tuple(context.outstanding.items()):
        if isinstance(effect, StopAttempt | LookAtAttempt) and effect_id not in context.abandoned:
            cancel_effect(effect_id, context)


def void_approvals(memory: ConstellationMemory, *, but: Collection[str] = ()) -> None:
    """Void the approvals of tasks that have not completed: each was given for one attempt, and not for one of a copy."""
    unapproved = approval_of_repeated(memory.guards)
    for task in memory.constellation.tasks.values():
        if task.task_id in but:
            continue
        if task.approved == INTERRUPTED:
            continue  # a retry of what may have finished asks in the copy, too
        if task.approved and not task.settled:
            task.approved = INTERRUPTED if task.attempts else unapproved
        elif unapproved and task.status is not TaskStatus.COMPLETED:
            task.approved = unapproved


def approve_again(memory: ConstellationMemory, context: StepContext) -> None:
    """Void the approvals of tasks whose attempt has not begun; an attempt that waits for its device is taken back."""
    queued = [(effect, attempt) for effect, attempt in memory.attempts.items() if memory.never_began(effect)]
    for effect, attempt in queued:
        task = memory.constellation.tasks[attempt.task_id]
        if memory.schedule and not is_child(effect, context):
            drop_effect(memory, effect, context)
            error = TaskError(code="interrupted", why=phrase("unbegun_at_import"))
            move_task(memory.schedule, task, Retried(error=error, not_before=context.at), context)
    void_approvals(memory, but={attempt.task_id for attempt in memory.attempts.values()})


def note_asked_again(memory: ConstellationMemory, before: str, now: str, context: StepContext) -> None:
    """Let the proposal, or the task, that waits for the answer to a question wait for that of this run."""
    if isinstance(memory.planning, AwaitingApproval) and memory.planning.effect_id == before:
        memory.planning.effect_id = now
    elif memory.schedule:
        await_answer(memory, memory.schedule, memory.questions.pop(before), now, context)


def decide_again(memory: ConstellationMemory, schedule: TaskSchedule, event: Forked, context: StepContext) -> None:
    """Start repeatable and queued attempts again, and ask about the others, also in place of the questions of devices.

    The copied effects are cancelled: their ids are not those of the original's effects, so no
    performer knows them.
    """
    wait_again(memory, schedule, context)
    for effect, attempt in tuple(memory.attempts.items()):
        never_began = memory.never_began(effect)
        if effect in context.abandoned:  # a child run's, cancelled already
            memory.remove_attempt(effect)
        else:
            drop_effect(memory, effect, context)
        task = schedule.constellation.tasks[attempt.task_id]
        error = TaskError(code="interrupted", why=phrase("under_way_at_fork", origin=event.origin))
        if not attempt.repeatable and not never_began:
            may_have_happened(memory, schedule, attempt, _forked_in("forked_in_task", attempt, event), context)
        else:
            move_task(schedule, task, Retried(error=error, not_before=context.at), context)
    for inquiry, attempt in tuple(memory.questions.items()):
        if memory.inquiries[inquiry].kind == DEVICE:
            drop_effect(memory, inquiry, context)
            may_have_happened(memory, schedule, attempt, _forked_in("forked_in_question", attempt, event), context)


def _forked_in(code: str, attempt: Dispatch, event: Forked) -> Phrase:
    return phrase(code, task=attempt.task_id, device=attempt.device_id, origin=event.origin)
