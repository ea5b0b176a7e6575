"""What a fork means: nothing that was under way in the origin is silently repeated; each is decided anew."""

from __future__ import annotations

from asterism.kernel.machine import Turn
from asterism.machines.common_rows import call_off
from asterism.machines.control import Forked
from asterism.machines.orchestration_loop.memory import Activity, Call, LoopMemory, Question
from asterism.machines.orchestration_loop.people import ask_about, ask_about_call


def decide_anew(memory: LoopMemory, event: Forked, turn: Turn) -> None:
    """Start again what may be repeated, ask a person about what may not, and ask again what was being asked.

    A yes that was used for what is under way was the origin's, too: what is started again needs one of its own.
    """
    memory.started_at += event.idle_s
    memory.trusted.clear()  # a yes for the rest of a run was to that one
    if memory.asking:
        call_off(memory.asking, turn)
        memory.asking = ""
    turn.touch("task", *memory.active)
    for activity in memory.active.values():
        for call in activity.calls:
            _call_anew(memory, activity, call, event, turn)
        _step_anew(memory, activity, event, turn)


def _step_anew(memory: LoopMemory, activity: Activity, event: Forked, turn: Turn) -> None:
    if activity.effect:
        if activity.effect not in turn.abandoned:  # a child's: called off already
            call_off(activity.effect, turn)
        activity.effect, activity.approved = "", False
        profile = memory.workers[activity.worker]
        if not profile.idempotent and not profile.converses:
            prompt = f"{activity.step.step_id} was under way when {event.origin} was forked, and may have finished. Run it here?"
            ask_about(memory, activity, "interruption", prompt, turn)
    elif activity.question.inquiry:
        asked, activity.question = activity.question, Question()
        call_off(asked.inquiry, turn)
        ask_about(memory, activity, asked.about, asked.prompt, turn, awaits=asked.awaits)


def _call_anew(memory: LoopMemory, activity: Activity, call: Call, event: Forked, turn: Turn) -> None:
    if call.effect:
        call_off(call.effect, turn)
        was_confirmed, call.effect, call.confirmed = call.confirmed, "", False
        if not call.asked.idempotent:
            prompt = f"{call.asked.tool} was under way when {event.origin} was forked, and may have been carried out. Call it here?"
            ask_about_call(memory, call, "interruption", prompt, turn)
        elif was_confirmed:
            ask_about_call(memory, call, "confirmation", f"Let {activity.worker} call {call.asked.tool}? (it is a fork's own call)", turn)
    elif call.question.inquiry:
        asked, call.question = call.question, Question()
        call_off(asked.inquiry, turn)
        ask_about_call(memory, call, asked.about, asked.prompt, turn)
