"""Questions to people about attempts, those of devices included: asking them, and checking the answers.

A question of a device ends a leg of its attempt, and the answer begins the next.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from asterism.constellation.machine.events import AttemptLooked, Dispatch, LookAtAttempt
from asterism.constellation.machine.guarding import GUARDED, INTERRUPTED, VOID, is_remote, permit_task
from asterism.constellation.machine.memory import DEVICE, ConstellationMemory
from asterism.constellation.machine.requests import attempt_request
from asterism.constellation.machine.stopping import drop_effect
from asterism.constellation.machine.task_coupling import TaskSchedule, move_task
from asterism.constellation.machine.task_lifecycle import Continued, LegStarted, Started
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.resolution import check_inputs
from asterism.constellation.model.task import TaskStar
from asterism.devices.model.attempt import DeviceQuestion, DeviceReply, request_shown
from asterism.devices.model.references import references
from asterism.engine.control.inquiries import INTERRUPTION, open_inquiry
from asterism.engine.control.run_control import Answered, AskPerson
from asterism.engine.kernel.guards import digest_of
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.phrase import Phrase, phrase
from asterism.engine.kernel.profile import Skill, skill_of
from asterism.errors import Refused

EDITS_CHECKED = 3
"""Rules from which on the types of a person's arguments are checked, as those of a plan are."""

REJECTS_HOLD = 5
"""Rules from which on a retry asks again about work that may have finished."""
MAX_LEGS = 20
"""Legs of one attempt."""
LOOK_S = (10.0, 600.0)
"""First and longest wait before a device is asked whether an attempt has gone on although its question is open."""


# -- asking ----------------------------------------------------------------------------------------


def ask_to_start(memory: ConstellationMemory, schedule: TaskSchedule, task: TaskStar, attempt: Dispatch, context: StepContext) -> None:
    """Ask a person whether to start an attempt.

    A task whose last question about an interrupted attempt was not approved is asked about again.
    """
    kind, code = "approval", "run_task"
    if task.approved == INTERRUPTED:
        kind, code = INTERRUPTION, "repeat_before_retry"
    elif task.approved and context.rules >= GUARDED:
        task.approved = VOID  # it was for another request; a no to this one leaves nothing approved, also for a retry
    prompt = phrase(code, **named(task), device=attempt.device_id)
    inquiry = open_inquiry(memory, kind, prompt, shown(memory, attempt, context), context, about=task.task_id)
    await_answer(memory, schedule, attempt, inquiry, context, by=Started)


def may_have_happened(memory: ConstellationMemory, schedule: TaskSchedule, attempt: Dispatch, prompt: Phrase, context: StepContext) -> None:
    """Ask a person whether an attempt that may have finished is to run again."""
    inquiry = open_inquiry(memory, INTERRUPTION, prompt, shown(memory, attempt, context), context, about=attempt.task_id)
    await_answer(memory, schedule, attempt, inquiry, context)


def put_device_question(
    memory: ConstellationMemory, schedule: TaskSchedule, attempt: Dispatch, asked: DeviceQuestion, context: StepContext
) -> None:
    """Ask a person the question of a device. The attempt has the key of its first leg in ``first``."""
    subject = {
        "task_id": attempt.task_id,
        "device": attempt.device_id,
        "skill": attempt.skill,
        "question": asked.prompt,
        "leg": attempt.leg,
    }
    shape: dict[str, Any] = {"verbs": asked.verbs, "schema": asked.schema, "risk": asked.risk}
    inquiry = open_inquiry(memory, DEVICE, asked.prompt, subject, context, about=attempt.task_id, **shape)
    await_answer(memory, schedule, msgspec.structs.replace(attempt, reply=None, state=asked.state), inquiry, context)
    if asked.may_go_on:
        _look_later(memory, inquiry, LOOK_S[0], context)


def await_answer(
    memory: ConstellationMemory,
    schedule: TaskSchedule,
    attempt: Dispatch,
    inquiry_id: str,
    context: StepContext,
    *,
    by: type[Started | Continued] = Continued,
) -> None:
    """Let the task of an attempt wait for the answer to an open question."""
    task = schedule.constellation.tasks[attempt.task_id]
    if memory.inquiries[inquiry_id].kind == INTERRUPTION and context.rules >= REJECTS_HOLD:
        task.approved = INTERRUPTED
    memory.questions[inquiry_id] = attempt
    move_task(schedule, task, by(effect_id=inquiry_id, inquiry_id=inquiry_id), context)


# -- attempts that go on without an answer ---------------------------------------------------------


def _look_later(memory: ConstellationMemory, inquiry_id: str, wait_s: float, context: StepContext) -> None:
    memory.looks[inquiry_id] = context.at + wait_s, wait_s
    memory.wake_up_at(context.at + wait_s)


def look_now(memory: ConstellationMemory, context: StepContext) -> None:
    """Let the devices be asked at once about all attempts that may have gone on."""
    for inquiry_id, (_, wait_s) in memory.looks.items():
        memory.looks[inquiry_id] = context.at, wait_s
        memory.wake_up_at(context.at)


def look_at_due(memory: ConstellationMemory, context: StepContext) -> None:
    """Ask the devices about the attempts whose time for it has come."""
    for inquiry_id, (at, wait_s) in tuple(memory.looks.items()):
        attempt = memory.questions.get(inquiry_id)
        if attempt is None or at <= context.at:
            del memory.looks[inquiry_id]
        if attempt is not None and at <= context.at:
            context.schedule(LookAtAttempt(inquiry_id=inquiry_id, task_id=attempt.task_id, device=attempt.device_id, wait_s=wait_s))


def note_looked(memory: ConstellationMemory, event: AttemptLooked, context: StepContext) -> StrEnum:
    """Let an attempt that has gone on by itself continue, without its question; or look again later."""
    look = context.outstanding.get(event.effect_id)
    attempt = memory.questions.get(look.inquiry_id) if isinstance(look, LookAtAttempt) else None
    if not isinstance(look, LookAtAttempt) or attempt is None or memory.schedule is None:
        return context.state  # the question has been answered, or has closed
    if event.gone_on:
        drop_effect(memory, look.inquiry_id, context)
        begin_leg(memory, memory.schedule, attempt, None, context)
    else:
        _look_later(memory, look.inquiry_id, min(2 * look.wait_s, LOOK_S[1]), context)
    return context.state


# -- answers ---------------------------------------------------------------------------------------


def edited(memory: ConstellationMemory, attempt: Dispatch, value: dict[str, Any], context: StepContext) -> Dispatch:
    """Return an attempt with the arguments that a person has given.

    Raises:
        Refused: its skill does not accept them.
    """
    if next(references(value), None):
        raise Refused(phrase("edit_refers"))
    skill = skill_of(memory.fleet, attempt.device_id, attempt.skill)
    if skill is not None and context.rules >= EDITS_CHECKED:
        try:
            check_inputs(attempt.task_id, value, skill)
        except EditRefused as refused:
            raise Refused(phrase("plan_refused", what=refused.refusal.subject, why=refused.refusal.why)) from None
    elif skill is not None and (unknown := [name for name in value if name not in skill.parameter_names()]):
        raise Refused(phrase("skill_accepts", skill=skill.name, names=skill.parameter_names(), unknown=unknown))
    attempt = msgspec.structs.replace(attempt, arguments={**attempt.arguments, **value})
    if context.rules >= GUARDED:
        task = memory.constellation.tasks[attempt.task_id]
        given = msgspec.structs.replace(task, inputs={**task.inputs, **value}, is_foreign=task.is_foreign or is_remote(context))
        if why := permit_task(memory.guards, given, attempt.arguments).refusal:
            raise Refused(why)
    return attempt


def begin_leg(memory: ConstellationMemory, schedule: TaskSchedule, attempt: Dispatch, event: Answered | None, context: StepContext) -> None:
    """Begin the next leg of an attempt, with a person's answer if there is one.

    A pause of the run does not delay it: the attempt is under way.
    """
    reply = None if event is None else DeviceReply(verb=event.verb, value=event.value, reason=event.reason)
    attempt = msgspec.structs.replace(attempt, leg=attempt.leg + 1, reply=reply, queued=not memory.has_free_place(attempt.device_id))
    effect = context.schedule(attempt)
    memory.add_attempt(effect, attempt)
    move_task(schedule, schedule.constellation.tasks[attempt.task_id], LegStarted(effect_id=effect), context)


def check_reply(schema: dict[str, Any], value: Any, device: str) -> None:
    """Check the value of an answer against the schema of a device's question."""
    if schema.get("type") != "object":
        return
    if not isinstance(value, dict):
        raise Refused(phrase("reply_is_object", device=device, fields=[*schema.get("properties", {})]))
    if missing := [name for name in schema.get("required", ()) if name not in value]:
        raise Refused(phrase("reply_lacks", fields=[*map(str, missing)]))
    try:
        check_inputs(device, value, Skill(name=f"the question of {device}", parameters=schema))
    except EditRefused as refused:
        raise Refused(refused.refusal.why) from None


def check_result(memory: ConstellationMemory, attempt: Dispatch, value: Any) -> None:
    """Check that a person's result has the fields of the skill's output, as later tasks expect."""
    skill = skill_of(memory.fleet, attempt.device_id, attempt.skill)
    fields = skill.output_fields() if skill else None
    if skill is None or skill.output is None or fields is None:
        return
    if not isinstance(value, dict) or value.keys() - fields or set(skill.output.get("required", ())) - value.keys():
        raise Refused(phrase("result_is_object", skill=skill.name, fields=[*skill.output["properties"]]))


# -- what is shown ---------------------------------------------------------------------------------


def approved(memory: ConstellationMemory, attempt: Dispatch, context: StepContext) -> str:
    """Return what ``TaskStar.approved`` has after an approval of exactly this attempt."""
    subject = shown(memory, attempt, context)
    return digest_of(subject) if context.rules >= GUARDED else msgspec.json.encode(subject, order="deterministic").decode()


def approved_by(inquiry: AskPerson, attempt: Dispatch, context: StepContext) -> str:
    """Return it after a yes to a question: to what that showed, since a task before it may have run again meanwhile."""
    if context.rules < GUARDED:
        return msgspec.json.encode(_shown_before(attempt), order="deterministic").decode()
    return digest_of({**inquiry.subject, "arguments": attempt.arguments})


def shown(memory: ConstellationMemory, attempt: Dispatch, context: StepContext) -> dict[str, Any]:
    """Return what a person decides about: the request, with the plan of a task that has one."""
    if context.rules < GUARDED:
        return _shown_before(attempt)
    found = request_shown(attempt_request(memory, context.run_id, f"{context.run_id}:0.0", attempt))
    return {**found, "constellation": attempt.plan} if attempt.plan is not None else found


def _shown_before(attempt: Dispatch) -> dict[str, Any]:
    """Return what questions of earlier rules show."""
    if attempt.plan is not None:
        return {"task_id": attempt.task_id, "constellation": attempt.plan, "arguments": attempt.arguments}
    process = {name: it for name, it in (("env", attempt.env), ("folder", attempt.task_folder)) if it}
    return {"task_id": attempt.task_id, "device": attempt.device_id, "skill": attempt.skill, "arguments": attempt.arguments, **process}


def named(task: TaskStar) -> dict[str, str]:
    """Return id and name of a task, for a phrase."""
    return {"task": task.task_id, "name": task.name}
