"""Forks of a run: work outstanding in the original is decided again, never silently repeated."""

from __future__ import annotations

from asterism.constellation.task import TaskError
from asterism.kernel.machine import RecoveryPolicy, StepContext
from asterism.machines.constellation_agent.approval import put_to_person
from asterism.machines.constellation_agent.memory import ConstellationMemory
from asterism.machines.constellation_agent.planning_state import AwaitingApproval
from asterism.machines.constellation_agent.tasks import ask_person, cancel_attempt
from asterism.machines.run_control import Forked
from asterism.machines.task_coupling import TaskSchedule, move_task
from asterism.machines.task_lifecycle import Continued, Retried


def ask_approval_again(memory: ConstellationMemory, context: StepContext) -> None:
    """Ask again, under this run's id, about a proposal that awaits approval in the original."""
    asked = memory.planning
    if isinstance(asked, AwaitingApproval):
        cancel_attempt(memory, asked.effect_id, context)
        asked.effect_id, asked.expires_at = put_to_person(memory, asked.subject, context)


def decide_again(memory: ConstellationMemory, schedule: TaskSchedule, event: Forked, context: StepContext) -> None:
    """Start repeatable attempts again, ask a person about the others, and repeat open questions.

    The copied effects are cancelled: their ids are not those of the original's effects, so no
    performer knows them.
    """
    for effect, attempt in tuple(memory.attempts.items()):
        if effect in context.abandoned:  # a child run's, cancelled already
            del memory.attempts[effect]
        else:
            cancel_attempt(memory, effect, context)
        task = schedule.constellation.tasks[attempt.task_id]
        error = TaskError(code="interrupted", message=f"it was under way when {event.origin} was forked")
        if attempt.recovery is RecoveryPolicy.DO_NOT_RETRY:
            where = f" on {attempt.device}" if attempt.device else ""
            prompt = f"{attempt.task_id}{where} was under way when {event.origin} was forked, and may have finished. Run it here?"
            inquiry = ask_person(memory, "interruption", attempt, prompt, context)
            move_task(schedule, task, Continued(effect_id=inquiry, inquiry_id=inquiry), context)
        else:
            move_task(schedule, task, Retried(error=error, not_before=context.at), context)
    for effect, question in tuple(memory.questions.items()):
        if effect.startswith(f"{context.run_id}:{context.seq}."):
            continue  # asked above
        cancel_attempt(memory, effect, context)
        task = schedule.constellation.tasks[question.task_id]
        inquiry = ask_person(memory, question.kind, question.attempt, question.prompt, context)
        move_task(schedule, task, Continued(effect_id=inquiry, inquiry_id=inquiry), context)
