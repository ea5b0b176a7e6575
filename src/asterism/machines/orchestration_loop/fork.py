"""Forks of a run: work outstanding in the original is decided again, never silently repeated."""

from __future__ import annotations

from asterism.kernel.machine import StepContext
from asterism.machines.common_rows import cancel_effect
from asterism.machines.orchestration_loop.inquiries import ask_about, ask_about_call
from asterism.machines.orchestration_loop.memory import Activity, Call, LoopMemory, StepInquiry
from asterism.machines.run_control import Forked


def decide_again(memory: LoopMemory, event: Forked, context: StepContext) -> None:
    """Start repeatable work again, ask a person about the rest, and repeat open questions.

    An approval that was used for outstanding work was given in the original, so that work needs a
    new one.
    """
    memory.started_at += event.idle_s
    memory.trusted.clear()  # tools were trusted for the rest of the original run only
    if memory.open_call:
        cancel_effect(memory.open_call, context)
        memory.open_call = ""
    context.touch("task", *memory.active)
    for activity in memory.active.values():
        for call in activity.calls:
            _decide_call_again(memory, activity, call, event, context)
        _decide_step_again(memory, activity, event, context)


def _decide_step_again(memory: LoopMemory, activity: Activity, event: Forked, context: StepContext) -> None:
    if activity.effect_id:
        if activity.effect_id not in context.abandoned:  # a child run's is cancelled already
            cancel_effect(activity.effect_id, context)
        activity.effect_id, activity.approved = "", False
        profile = memory.workers[activity.worker]
        if not profile.idempotent and not profile.converses:
            prompt = f"{activity.step.step_id} was under way when {event.origin} was forked, and may have finished. Run it here?"
            ask_about(memory, activity, "interruption", prompt, context)
    elif activity.question.inquiry_id:
        asked, activity.question = activity.question, StepInquiry()
        cancel_effect(asked.inquiry_id, context)
        ask_about(memory, activity, asked.about, asked.prompt, context, awaits=asked.awaits)


def _decide_call_again(memory: LoopMemory, activity: Activity, call: Call, event: Forked, context: StepContext) -> None:
    if call.effect_id:
        cancel_effect(call.effect_id, context)
        was_confirmed, call.effect_id, call.confirmed = call.confirmed, "", False
        if not call.asked.idempotent:
            prompt = f"{call.asked.tool} was under way when {event.origin} was forked, and may have been carried out. Call it here?"
            ask_about_call(memory, call, "interruption", prompt, context)
        elif was_confirmed:
            ask_about_call(
                memory, call, "confirmation", f"Let {activity.worker} call {call.asked.tool}? (it is a fork's own call)", context
            )
    elif call.question.inquiry_id:
        asked, call.question = call.question, StepInquiry()
        cancel_effect(asked.inquiry_id, context)
        ask_about_call(memory, call, asked.about, asked.prompt, context)
