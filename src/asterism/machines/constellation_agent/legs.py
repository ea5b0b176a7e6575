"""The legs of an attempt: a question of its device ends one, and the answer of a person begins the next."""

from __future__ import annotations

import msgspec

from asterism.constellation.edits import EditRefused
from asterism.constellation.profile import Skill
from asterism.constellation.resolution import check_inputs
from asterism.errors import Refused
from asterism.kernel.machine import StepContext
from asterism.machines.constellation_agent.device_question import DeviceQuestion, DeviceReply
from asterism.machines.constellation_agent.events import Dispatch
from asterism.machines.constellation_agent.memory import AttemptInquiry, ConstellationMemory
from asterism.machines.run_control import Answered
from asterism.machines.task_coupling import TaskSchedule, move_task
from asterism.machines.task_lifecycle import Continued, LegStarted

MAX_LEGS = 20
"""Legs of one attempt."""


def put_device_question(
    memory: ConstellationMemory, schedule: TaskSchedule, attempt: Dispatch, asked: DeviceQuestion, context: StepContext
) -> None:
    """Ask a person the question of a device. The attempt has the key of its first leg in ``first``."""
    subject = {"task_id": attempt.task_id, "device": attempt.device, "skill": attempt.skill, "question": asked.prompt, "leg": attempt.leg}
    inquiry, expires_at = memory.ask(asked.prompt, subject, asked.verbs, context, schema=asked.schema, risk=asked.risk)
    memory.questions[inquiry] = AttemptInquiry(
        kind="device",
        task_id=attempt.task_id,
        attempt=msgspec.structs.replace(attempt, reply=None, state=asked.state),
        prompt=asked.prompt,
        expires_at=expires_at,
        asked=asked,
    )
    move_task(schedule, schedule.constellation.tasks[attempt.task_id], Continued(effect_id=inquiry, inquiry_id=inquiry), context)


def check_reply(asked: DeviceQuestion, event: Answered, device: str) -> None:
    """Check the value of an answer against the schema of the question.

    Raises:
        Refused: the value does not fit; the question stays open.
    """
    if event.verb != "respond" or asked.schema.get("type") != "object":
        return
    if not isinstance(event.value, dict):
        raise Refused(f"{device} asks for an object with {', '.join(asked.schema.get('properties', {})) or 'any fields'}; give one as JSON")
    if missing := [name for name in asked.schema.get("required", ()) if name not in event.value]:
        raise Refused(f"the answer lacks {', '.join(map(str, missing))}")
    try:
        check_inputs(device, event.value, Skill(name=f"the question of {device}", parameters=asked.schema))
    except EditRefused as refused:
        raise Refused(refused.refusal.why) from None


def begin_leg(memory: ConstellationMemory, schedule: TaskSchedule, question: AttemptInquiry, event: Answered, context: StepContext) -> None:
    """Begin the next leg of an attempt with a person's answer. A pause of the run does not delay it: the attempt is under way."""
    attempt = msgspec.structs.replace(
        question.attempt,
        leg=question.attempt.leg + 1,
        reply=DeviceReply(verb=event.verb, value=event.value, reason=event.reason),
        queued=not memory.has_free_place(question.attempt.device),
    )
    effect = context.schedule(attempt)
    memory.add_attempt(effect, attempt)
    move_task(schedule, schedule.constellation.tasks[attempt.task_id], LegStarted(effect_id=effect), context)
