"""Questions to people about steps and tool calls, and their answers."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.constellation.profile import JSON_TYPES, has_json_type
from asterism.errors import Refused
from asterism.kernel.machine import StepContext
from asterism.machines.common_rows import cancel_effect
from asterism.machines.orchestration_loop.memory import About, Activity, Call, LoopMemory, StepInquiry
from asterism.machines.orchestration_loop.model import Finding, Step, ToolCall
from asterism.machines.run_control import Answered, AskPerson, Risk, Verb, check_verb, expiry, no_longer_open

_VERBS: dict[About, tuple[Verb, ...]] = {
    "approval": ("approve", "edit", "reject"),
    "interruption": ("approve", "respond", "reject"),
    "later": ("respond", "reject"),
    "question": ("respond", "reject"),
    "confirmation": ("approve", "edit", "reject"),
}


def ask_about(memory: LoopMemory, activity: Activity, about: About, prompt: str, context: StepContext, *, awaits: str = "") -> None:
    """Ask a person (or wait for a program) about a step.

    The approved subject is everything that the worker will see.
    """
    step = activity.step
    subject = {"step_id": step.step_id, "worker": activity.worker, "intent": step.intent, "context": step.context}
    if about == "approval" and step.uses:
        subject["artifacts"] = memory.handoff(activity).artifacts
    activity.question = _ask(memory, about, prompt, subject | ({"awaits": awaits} if awaits else {}), context)
    activity.question.awaits = awaits


def ask_about_call(memory: LoopMemory, call: Call, about: About, prompt: str, context: StepContext) -> None:
    """Ask a person about a tool call; the subject is exactly the call."""
    subject = {"tool": call.asked.tool, "arguments": call.asked.arguments}
    call.question = _ask(memory, about, prompt, subject, context)


def _ask(memory: LoopMemory, about: About, prompt: str, subject: dict[str, Any], context: StepContext) -> StepInquiry:
    risk: Risk = "low" if about in ("later", "question") else "high"
    expires_at = expiry(context, memory.options.inquiry_timeout_s)
    inquiry = context.schedule(AskPerson(prompt=prompt, subject=subject, verbs=_VERBS[about], risk=risk, expires_at=expires_at))
    return StepInquiry(inquiry_id=inquiry, about=about, prompt=prompt, expires_at=expires_at)


def take_answer(memory: LoopMemory, event: Answered, context: StepContext) -> None:
    """Apply an answer.

    Raises:
        Refused: the question is not open, or does not accept this answer; nothing has changed.
    """
    for step_id, activity in memory.active.items():
        if activity.question.inquiry_id == event.effect_id:
            _check(activity.question, event)
            _about_step(activity, event, context)
            context.touch("task", step_id)
            return
        for call in activity.calls:
            if call.question.inquiry_id == event.effect_id:
                _check(call.question, event)
                _about_call(memory, activity, call, event, context)
                context.touch("task", step_id)
                return
    raise no_longer_open(event)


def _check(question: StepInquiry, event: Answered) -> None:
    check_verb(event, _VERBS[question.about])
    if event.verb == "edit" and not isinstance(event.value, dict):
        raise Refused("an edit must be a JSON object with the changes")


def _about_step(activity: Activity, event: Answered, context: StepContext) -> None:
    edited = _edited(activity.step, event.value) if event.verb == "edit" else activity.step
    about, activity.question = activity.question.about, StepInquiry()
    if event.verb in ("approve", "edit"):
        if event.verb == "edit":
            activity.step = edited
        activity.approved = True
        if about == "interruption":
            activity.attempt += 1
    elif event.verb == "respond":
        activity.settle(Finding(output=event.value))
    else:
        activity.settle(Finding(status="denied", reason=_why_not(about, f"{context.actor} said no"), feedback=event.reason))


def _edited(step: Step, given: dict[str, Any]) -> Step:
    """Return the step with an edited ``intent`` or ``context``.

    Other names are items of the context.
    """
    fixed = [name for name in ("step_id", "worker", "artifacts") if name in given]
    if fixed:
        raise Refused(f"an edit of {step.step_id} can change its intent and context, not {', '.join(fixed)}")
    intent, context = given.get("intent", step.intent), given.get("context", {})
    if not isinstance(intent, str) or not isinstance(context, dict):
        raise Refused(f"an edit of {step.step_id} must give the intent as text and the context as a JSON object")
    more = {name: value for name, value in given.items() if name not in ("intent", "context")}
    return msgspec.structs.replace(step, intent=intent, context={**step.context, **context, **more})


def _about_call(memory: LoopMemory, activity: Activity, call: Call, event: Answered, context: StepContext) -> None:
    if event.verb == "edit":
        _check_arguments(call.asked, event.value)
    about, call.question = call.question.about, StepInquiry()
    if event.verb in ("approve", "edit"):
        if event.verb == "edit":
            call.asked = msgspec.structs.replace(call.asked, arguments={**call.asked.arguments, **event.value})
        elif isinstance(event.value, dict) and event.value.get("always") is True:
            memory.trusted[activity.tool(call)] = None
        call.confirmed = True
    elif event.verb == "respond":
        call.done, call.result = True, event.value
    else:
        call.done, call.result = True, _not_called(about, f"{context.actor} said no", event.reason)


def _check_arguments(asked: ToolCall, given: dict[str, Any]) -> None:
    """Check the arguments that a person gives, because many servers ignore unknown ones."""
    known = asked.parameters.get("properties")
    if not isinstance(known, dict):
        return
    unknown = [name for name in given if name not in known]
    if unknown and not asked.parameters.get("additionalProperties"):
        raise Refused(f"{asked.tool} has no argument {', '.join(unknown)}; it has {', '.join(known)}")
    for name, value in given.items():
        kind = known[name].get("type") if isinstance(known.get(name), dict) else None
        if isinstance(kind, str) and kind in JSON_TYPES and not has_json_type(value, kind):
            raise Refused(f"argument {name} of {asked.tool} must be of type {kind}")


def denied(reason: str, feedback: str = "") -> dict[str, str]:
    """Return the result of a denied call, for the model."""
    return {"status": "denied", "reason": reason, "feedback": feedback}


def _not_called(about: About, why: str, feedback: str = "") -> dict[str, str]:
    # An interrupted call may have been made
    result = denied(_why_not(about, why), feedback)
    return {**result, "status": "interrupted"} if about == "interruption" else result


def _why_not(about: About, why: str) -> str:
    return f"it was interrupted, may have been carried out, and is not repeated: {why}" if about == "interruption" else why


def expire(memory: LoopMemory, context: StepContext) -> bool:
    """Handle expired questions like rejected ones; return True if there were any."""
    changed = False
    for activity in memory.active.values():
        for question in tuple(activity.questions()):
            if 0 < question.expires_at <= context.at:
                _expired(memory, activity, question.inquiry_id, context)
                changed = True
    return changed


def _expired(memory: LoopMemory, activity: Activity, inquiry_id: str, context: StepContext) -> None:
    cancel_effect(inquiry_id, context)
    context.touch("task", activity.step.step_id)
    why = "nobody answered in time"
    if activity.question.inquiry_id == inquiry_id:
        about, activity.question = activity.question.about, StepInquiry()
        activity.settle(Finding(status="timeout" if about == "later" else "denied", reason=_why_not(about, why)))
    for call in activity.calls:
        if call.question.inquiry_id == inquiry_id:
            about, call.question = call.question.about, StepInquiry()
            call.done, call.result = True, _not_called(about, why)
