"""Questions to people about steps and tool calls, and their answers."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.engine.control.guarding import note_run_edited, permit_work
from asterism.engine.control.inquiries import INTERRUPTION, close_inquiry, is_expired, open_inquiry
from asterism.engine.control.run_control import Answered, AskPerson, Risk
from asterism.engine.kernel.conformance import mismatch
from asterism.engine.kernel.guards import digest_of
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.permissions import Permission
from asterism.engine.kernel.phrase import Text, phrase
from asterism.errors import Refused
from asterism.loop.machine.memory import GUARDED, Activity, Call, Denial, LoopMemory
from asterism.loop.machine.model import Finding, Step, ToolCall


def ask_about(
    memory: LoopMemory, activity: Activity, kind: str, prompt: Text, context: StepContext, *, call: Call | None = None, awaits: str = ""
) -> None:
    """Ask a person about a step, or a call of a tool in it, or wait for a program: ``awaits`` is the key of a result that comes later.

    The approved subject is everything that the worker will see, or exactly the call.
    """
    if call is not None:
        subject = {"tool": call.asked.tool, "arguments": call.asked.arguments}
    else:
        subject = shown(memory, activity, kind, context) | ({"awaits": awaits} if awaits else {})
    risk: Risk = "low" if kind in ("later", "question") else "high"
    (call or activity).inquiry_id = open_inquiry(memory, kind, prompt, subject, context, about=activity.step.step_id, risk=risk)


def shown(memory: LoopMemory, activity: Activity, kind: str, context: StepContext) -> dict[str, Any]:
    """Return what a person decides about: all that the worker gets."""
    step = activity.step
    subject = {"step_id": step.step_id, "worker": activity.worker, "intent": step.intent, "context": step.context}
    if activity.question is not None:
        del subject["intent"]
    is_whole = kind == "approval" or (kind == INTERRUPTION and context.rules >= GUARDED)
    return {**subject, "artifacts": memory.handoff(activity).artifacts} if is_whole and step.uses else subject


def approved(memory: LoopMemory, activity: Activity, context: StepContext) -> str:
    """Return what ``Activity.approved`` has after an approval of the step as it would begin now."""
    return digest_of(shown(memory, activity, "approval", context)) if context.rules >= GUARDED else "approved"


def take_answer(memory: LoopMemory, event: Answered, context: StepContext) -> None:
    """Apply an answer.

    Raises:
        Refused: the step, or the tool, does not accept it; nothing has changed.
    """
    inquiry = memory.inquiries[event.effect_id]
    activity = memory.active[inquiry.about]
    asking = activity.asking(event.effect_id)
    if isinstance(asking, Call):
        _about_call(memory, activity, asking, event)
    else:
        _about_step(memory, activity, inquiry.kind, event, context)
    asking.inquiry_id = ""
    if event.verb in ("reject", "cancel"):
        denied = Finding(status="denied", reason=phrase("loop.said_no", by=context.actor), feedback=event.reason)
        _deny(memory, inquiry, asking, denied, context)
    if event.verb == "edit":
        note_edited(memory, inquiry.about, is_foreign=Permission.LOCAL not in context.permissions)
    context.touch("task", inquiry.about)


def note_edited(memory: LoopMemory, step_id: str, *, is_foreign: bool) -> None:
    """Note that somebody has edited a step, or a run below it: the steps that use its output count as changed with it."""
    changed = {step_id}
    for step in memory.plan:
        if step.step_id in changed or not changed.isdisjoint(step.uses):
            changed.add(step.step_id)
            memory.concerned_by[step.step_id] = memory.guards.of_plan
    note_run_edited(memory, is_foreign=is_foreign)


def _about_step(memory: LoopMemory, activity: Activity, kind: str, event: Answered, context: StepContext) -> None:
    activity.step = _edited(activity.step, event.value) if event.verb == "edit" else activity.step
    if event.verb in ("approve", "edit"):
        activity.approved = approved(memory, activity, context)
        if kind == INTERRUPTION:
            activity.attempt += 1
    elif event.verb == "respond":
        _settle(memory, activity, Finding(output=event.value), context)


def _settle(memory: LoopMemory, activity: Activity, finding: Finding, context: StepContext) -> None:
    """Settle a step, and close the questions about its calls: a fork may have asked about both."""
    for call in activity.calls:
        close_inquiry(memory, call.inquiry_id, context)
        call.inquiry_id = ""
    activity.settle(finding)


def _edited(step: Step, given: dict[str, Any]) -> Step:
    """Return the step with an edited ``intent`` or ``context``.

    Other names are items of the context.
    """
    fixed = [name for name in ("step_id", "worker", "artifacts") if name in given]
    if fixed:
        raise Refused(phrase("loop.edit_fields", step=step.step_id, names=fixed))
    intent, context = given.get("intent", step.intent), given.get("context", {})
    if not isinstance(intent, str) or not isinstance(context, dict):
        raise Refused(phrase("loop.edit_types", step=step.step_id))
    more = {name: value for name, value in given.items() if name not in ("intent", "context")}
    return msgspec.structs.replace(step, intent=intent, context={**step.context, **context, **more})


def _about_call(memory: LoopMemory, activity: Activity, call: Call, event: Answered) -> None:
    always = event.verb == "approve" and isinstance(event.value, dict) and event.value.get("always") is True
    arguments = {**call.asked.arguments, **event.value} if event.verb == "edit" else call.asked.arguments
    permitted = permit_work(memory, activity.worker, call.asked.tool, arguments, approval=False)
    if event.verb == "edit":
        _check_arguments(call.asked, event.value)
        if permitted.refusal:
            raise Refused(permitted.refusal)
    if always and permitted.approval:
        raise Refused(phrase("loop.never_always", tool=call.asked.tool))
    if event.verb in ("approve", "edit"):
        if event.verb == "edit":
            call.asked = msgspec.structs.replace(call.asked, arguments=arguments)
        elif always:
            memory.trusted[activity.tool(call)] = None
        call.confirmed = True
    elif event.verb == "respond":
        call.done, call.result = True, event.value


def _check_arguments(asked: ToolCall, given: dict[str, Any]) -> None:
    """Check the arguments that a person gives, because many servers ignore unknown ones."""
    known = asked.parameters.get("properties")
    if not isinstance(known, dict):
        return
    unknown = [name for name in given if name not in known]
    if unknown and not asked.parameters.get("additionalProperties"):
        raise Refused(phrase("loop.no_argument", tool=asked.tool, names=unknown, known=[*known]))
    for name, value in given.items():
        if wrong := mismatch(value, known.get(name, True), asked.parameters):
            raise Refused(phrase("loop.argument_type", tool=asked.tool, name=name + wrong[0], type=wrong[1]))


def expire(memory: LoopMemory, context: StepContext) -> bool:
    """Handle expired questions like rejected ones; return True if there were any."""
    expired = [inquiry_id for inquiry_id in memory.inquiries if is_expired(memory, inquiry_id, context)]
    for inquiry_id in expired:
        inquiry = memory.inquiries.get(inquiry_id)
        if inquiry is None:
            continue  # about a call of a step that has just been denied
        asking = memory.active[inquiry.about].asking(inquiry_id)
        close_inquiry(memory, inquiry_id, context)
        asking.inquiry_id = ""
        denied = Finding(status="timeout" if inquiry.kind == "later" else "denied", reason=phrase("loop.unanswered"))
        _deny(memory, inquiry, asking, denied, context)
        context.touch("task", inquiry.about)
    return bool(expired)


def _deny(memory: LoopMemory, inquiry: AskPerson, asking: Activity | Call, denied: Finding, context: StepContext) -> None:
    """Settle a step, or a call of a tool, that nobody has approved; one that was interrupted may have been carried out."""
    may_have_happened = inquiry.kind == INTERRUPTION
    reason = phrase("loop.not_repeated", why=denied.reason) if may_have_happened else denied.reason
    if isinstance(asking, Activity):
        _settle(memory, asking, msgspec.structs.replace(denied, reason=reason), context)
    else:
        asking.done = True
        asking.denial = Denial(status="interrupted" if may_have_happened else "denied", reason=reason, feedback=denied.feedback)
