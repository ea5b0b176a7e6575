"""Questions to people about attempts: asking them, and checking the answers."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.constellation.edits import EditRefused
from asterism.constellation.profile import skill_of
from asterism.constellation.references import references
from asterism.constellation.resolution import check_inputs
from asterism.constellation.task import TaskStar
from asterism.errors import Refused
from asterism.kernel.machine import StepContext
from asterism.machines.constellation_agent.events import Dispatch
from asterism.machines.constellation_agent.legs import check_reply
from asterism.machines.constellation_agent.memory import About, AttemptInquiry, ConstellationMemory
from asterism.machines.run_control import Answered, Verb, check_verb

EDITS_CHECKED = 3
"""Rules from which on the types of a person's arguments are checked, as those of a plan are."""

REJECTS_HOLD = 5
"""Rules from which on a retry asks again about work that may have finished."""
INTERRUPTED = "interrupted"
"""``TaskStar.approved`` of a task that may have finished; no approval has this text."""

_VERBS: dict[About, tuple[Verb, ...]] = {"approval": ("approve", "edit", "reject"), "interruption": ("approve", "respond", "reject")}


def ask_person(memory: ConstellationMemory, kind: About, attempt: Dispatch, prompt: str, context: StepContext) -> str:
    """Ask a person about an attempt; return the id of the question."""
    inquiry, expires_at = memory.ask(prompt, subject_of(attempt), _VERBS[kind], context)
    if kind == "interruption" and context.rules >= REJECTS_HOLD:
        memory.constellation.tasks[attempt.task_id].approved = INTERRUPTED
    memory.questions[inquiry] = AttemptInquiry(kind=kind, task_id=attempt.task_id, attempt=attempt, prompt=prompt, expires_at=expires_at)
    return inquiry


def ask_to_start(memory: ConstellationMemory, task: TaskStar, attempt: Dispatch, context: StepContext) -> str:
    """Ask a person whether to start an attempt; return the id of the question.

    A task whose last question about an interrupted attempt was not approved is asked about again.
    """
    if task.approved == INTERRUPTED:
        prompt = f"{named(task)}{where(attempt)} was interrupted before this retry and may have finished. Run it again?"
        return ask_person(memory, "interruption", attempt, prompt, context)
    return ask_person(memory, "approval", attempt, f"Run {named(task)}{where(attempt)}?", context)


def check_answer(memory: ConstellationMemory, question: AttemptInquiry, event: Answered) -> None:
    """Check that a question accepts an answer.

    Raises:
        Refused: it does not; the question stays open.
    """
    asked = question.asked
    check_verb(event, asked.verbs if asked is not None else _VERBS[question.kind])
    if asked is not None:
        check_reply(asked, event, question.attempt.device)
    elif event.verb == "respond":
        _check_result(memory, question.attempt, event.value)


def edited(memory: ConstellationMemory, attempt: Dispatch, value: Any, context: StepContext) -> Dispatch:
    """Return an attempt with the arguments that a person has given.

    Raises:
        Refused: its skill does not accept them.
    """
    if not isinstance(value, dict):
        raise Refused("an edit must be the new arguments, as a JSON object")
    if next(references(value), None):
        raise Refused("an edit must give values, not references ${…}, because only the arguments shown are approved")
    skill = skill_of(memory.fleet, attempt.device, attempt.skill)
    if skill is not None and context.rules >= EDITS_CHECKED:
        try:
            check_inputs(attempt.task_id, value, skill)
        except EditRefused as refused:
            raise Refused(str(refused)) from None
    elif skill is not None and (unknown := [name for name in value if name not in skill.parameter_names()]):
        raise Refused(f"{skill.name} accepts {', '.join(skill.parameter_names()) or 'no arguments'}, not {', '.join(unknown)}")
    return msgspec.structs.replace(attempt, arguments={**attempt.arguments, **value})


def _check_result(memory: ConstellationMemory, attempt: Dispatch, value: Any) -> None:
    """Check that a person's result has the fields of the skill's output, as later tasks expect."""
    skill = skill_of(memory.fleet, attempt.device, attempt.skill)
    fields = skill.output_fields() if skill else None
    if skill is None or skill.output is None or fields is None:
        return
    if not isinstance(value, dict) or value.keys() - fields or set(skill.output.get("required", ())) - value.keys():
        raise Refused(f"{skill.name} returns an object with {', '.join(skill.output['properties'])}; give such an object")


def shown(attempt: Dispatch) -> str:
    """Return the text that an approval is bound to."""
    return msgspec.json.encode(subject_of(attempt), order="deterministic").decode()


def subject_of(attempt: Dispatch) -> dict[str, Any]:
    """Return what a person decides about: the task with its device, skill and arguments."""
    if attempt.plan is not None:
        return {"task_id": attempt.task_id, "constellation": attempt.plan, "arguments": attempt.arguments}
    process = {name: it for name, it in (("env", attempt.env), ("folder", attempt.folder)) if it}
    return {"task_id": attempt.task_id, "device": attempt.device, "skill": attempt.skill, "arguments": attempt.arguments, **process}


def where(attempt: Dispatch) -> str:
    """Return the device of an attempt, to follow the name of its task."""
    return f" on {attempt.device}" if attempt.device else ""


def named(task: TaskStar) -> str:
    """Return id and name of a task."""
    return f"{task.task_id} ({task.name})" if task.name else task.task_id
