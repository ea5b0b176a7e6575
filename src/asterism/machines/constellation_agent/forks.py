"""The fork of a run: outstanding work starts again if it is repeatable; else a person is asked."""

from __future__ import annotations

from asterism.constellation.task import TaskError
from asterism.kernel.machine import StepContext
from asterism.machines.common_rows import cancel_effect
from asterism.machines.constellation_agent.approval import put_to_person
from asterism.machines.constellation_agent.events import Dispatch, StopAttempt
from asterism.machines.constellation_agent.memory import AwaitingApproval, ConstellationMemory
from asterism.machines.constellation_agent.questions import ask_person
from asterism.machines.constellation_agent.stopping import drop_effect
from asterism.machines.run_control import Forked
from asterism.machines.task_coupling import TaskSchedule, move_task
from asterism.machines.task_lifecycle import Continued, Retried


def leave_to_original(memory: ConstellationMemory, context: StepContext) -> None:
    """Forget the handles of attempts, and stop nothing: what runs elsewhere belongs to the original."""
    memory.handles.clear()
    memory.recovered.clear()
    memory.still_running.clear()
    for effect_id, effect in tuple(context.outstanding.items()):
        if isinstance(effect, StopAttempt) and effect_id not in context.abandoned:
            cancel_effect(effect_id, context)


def ask_approval_again(memory: ConstellationMemory, context: StepContext) -> None:
    """Ask again, under this run's id, about a proposal that awaits approval in the original."""
    asked = memory.planning
    if isinstance(asked, AwaitingApproval):
        drop_effect(memory, asked.effect_id, context)
        asked.effect_id, asked.expires_at = put_to_person(memory, asked.subject, context)


def decide_again(memory: ConstellationMemory, schedule: TaskSchedule, event: Forked, context: StepContext) -> None:
    """Start repeatable and queued attempts again, ask about the others, and repeat open questions.

    The copied effects are cancelled: their ids are not those of the original's effects, so no
    performer knows them.
    """
    for effect, attempt in tuple(memory.attempts.items()):
        never_began = memory.never_began(effect)
        if effect in context.abandoned:  # a child run's, cancelled already
            memory.remove_attempt(effect)
        else:
            drop_effect(memory, effect, context)
        task = schedule.constellation.tasks[attempt.task_id]
        error = TaskError(code="interrupted", message=f"it was under way when {event.origin} was forked")
        if not attempt.repeatable and not never_began:
            _ask_about(memory, schedule, attempt, f"was under way when {event.origin} was forked, and may have finished", context)
        else:
            move_task(schedule, task, Retried(error=error, not_before=context.at), context)
    for effect, question in tuple(memory.questions.items()):
        if effect.startswith(f"{context.run_id}:{context.seq}."):
            continue  # asked above
        drop_effect(memory, effect, context)
        task = schedule.constellation.tasks[question.task_id]
        if question.kind == "device":
            happened = f"was waiting for an answer when {event.origin} was forked, and has begun there"
            _ask_about(memory, schedule, question.attempt, happened, context)
            continue
        inquiry = ask_person(memory, question.kind, question.attempt, question.prompt, context)
        move_task(schedule, task, Continued(effect_id=inquiry, inquiry_id=inquiry), context)


def _ask_about(memory: ConstellationMemory, schedule: TaskSchedule, attempt: Dispatch, happened: str, context: StepContext) -> None:
    where = f" on {attempt.device}" if attempt.device else ""
    inquiry = ask_person(memory, "interruption", attempt, f"{attempt.task_id}{where} {happened}. Run it here?", context)
    move_task(schedule, schedule.constellation.tasks[attempt.task_id], Continued(effect_id=inquiry, inquiry_id=inquiry), context)
