"""How attempts start and end: what is ready is started, what has ended is retried, asked about or settled."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from asterism.constellation.profile import skill_of
from asterism.constellation.references import MissingReference, references
from asterism.constellation.resolution import arguments_of, stand_ins
from asterism.constellation.task import TaskError, TaskStar, TaskStatus
from asterism.errors import Refused
from asterism.kernel.machine import Event, Redo, Turn
from asterism.machines import common_rows
from asterism.machines.constellation_agent.events import Dispatch, TaskEnded
from asterism.machines.constellation_agent.memory import About, AgentMemory, Question
from asterism.machines.constellation_agent.nested import child_for, is_child
from asterism.machines.constellation_agent.planning_state import Asked
from asterism.machines.control import Answered, Ask, Verb, check_verb, expiry, not_asked
from asterism.machines.task_lifecycle import Completed, Continued, Failed, Released, Retried, Skipped, Started, Stopped
from asterism.machines.wiring import Board, move_task

MAX_LOSSES = 10
"""Attempts of one task that may be lost with their device before it counts as failed."""

_VERBS: dict[About, tuple[Verb, ...]] = {"approval": ("approve", "edit", "reject"), "interruption": ("approve", "respond", "reject")}


# -- starting --------------------------------------------------------------------------------------


def start_ready(memory: AgentMemory, board: Board, turn: Turn) -> bool:
    """Start every task that is ready and may start now, higher priority first; True if anything changed."""
    if memory.paused or not board.startable:
        return False
    held = memory.held()
    tasks, ordinal = board.constellation.tasks, board.constellation.ordinal
    ready = [tasks[task_id] for task_id in board.startable if task_id not in held]
    ready.sort(key=lambda task: (-task.priority, ordinal(task.task_id)))
    changed = False
    for task in ready:
        if task.not_before <= turn.at and task.status is TaskStatus.PENDING:
            changed = _start(memory, board, task, turn) or changed
    return changed


def _start(memory: AgentMemory, board: Board, task: TaskStar, turn: Turn) -> bool:
    if task.device in memory.lost:
        there = next((device for device in stand_ins(task, memory.fleet) if device not in memory.lost), None)
        if there is None:
            return False
        task.device = there
    try:
        arguments = arguments_of(task, board.constellation, memory.fleet, memory.inputs)
    except MissingReference as missing:
        settle_task(memory, board, task, Skipped(error=TaskError(code="no_result", message=str(missing))), turn)
        return True
    attempt = _attempt(memory, task, arguments)
    # A yes is to exactly what was shown: one to running it again on this device is none to a stand-in.
    if (task.requires_approval or task.approved) and task.approved != _shown(attempt):
        effect = ask_person(memory, "approval", attempt, f"Run {_named(task)}{_where(attempt)}?", turn)
        move_task(board, task, Started(effect=effect, inquiry=effect), turn)
        _note_moved(memory, task, turn)
        return True
    effect = turn.perform(child_for(memory, task, attempt, turn) if is_child(memory, attempt) else attempt)
    memory.attempts[effect] = attempt
    move_task(board, task, Started(effect=effect), turn)
    _note_moved(memory, task, turn)
    return True


def _attempt(memory: AgentMemory, task: TaskStar, arguments: dict[str, Any]) -> Dispatch:
    skill = skill_of(memory.fleet, task.device, task.resolved_skill)
    return Dispatch(
        task_id=task.task_id,
        device=task.device,
        skill=task.resolved_skill,
        description=task.description or task.name,
        arguments=arguments,
        number=task.attempts + 1,
        priority=task.priority,
        timeout_s=task.timeout_s,
        deadline=None if task.deadline_s is None else memory.started_at + task.deadline_s,
        redone=Redo.SAME_KEY if skill is not None and skill.idempotent else Redo.NEVER,
        constellation=task.constellation,
    )


def _shown(attempt: Dispatch) -> str:
    """Exactly what an approval is bound to."""
    return msgspec.json.encode(_subject(attempt), order="deterministic").decode()


def _subject(attempt: Dispatch) -> dict[str, Any]:
    if attempt.constellation is not None:
        return {"task_id": attempt.task_id, "constellation": attempt.constellation, "arguments": attempt.arguments}
    return {"task_id": attempt.task_id, "device": attempt.device, "skill": attempt.skill, "arguments": attempt.arguments}


def _where(attempt: Dispatch) -> str:
    return f" on {attempt.device}" if attempt.device else ""


def _named(task: TaskStar) -> str:
    return f"{task.task_id} ({task.name})" if task.name else task.task_id


# -- people ----------------------------------------------------------------------------------------


def ask_person(memory: AgentMemory, kind: About, attempt: Dispatch, prompt: str, turn: Turn) -> str:
    """Ask a person about an attempt; returns the inquiry's id."""
    expires_at = expiry(turn, memory.options.inquiry_timeout_s)
    ask = Ask(prompt=prompt, subject=_subject(attempt), verbs=_VERBS[kind], risk="high", expires_at=expires_at)
    inquiry = turn.perform(ask)
    memory.questions[inquiry] = Question(kind=kind, task_id=attempt.task_id, attempt=attempt, prompt=prompt, expires_at=expires_at)
    if expires_at:
        memory.wake(expires_at)
    return inquiry


def take_answer(memory: AgentMemory, board: Board, event: Answered, turn: Turn) -> None:
    """Do what a person has answered.

    Raises:
        Refused: the question is not asked any more, or does not take this answer; it stays as it is.
    """
    question = memory.questions.get(event.effect)
    if question is None:
        raise not_asked(event)
    check_verb(event, _VERBS[question.kind])
    if event.verb == "respond":
        _check_result(memory, question.attempt, event.value)
    task, attempt = board.constellation.tasks[question.task_id], question.attempt
    if event.verb == "edit":
        attempt = _edited(memory, attempt, event.value)
        task.inputs = {**task.inputs, **event.value}  # so that a retry is what was approved, too
        board.constellation.inputs_changed(task.task_id)
    del memory.questions[event.effect]
    if event.verb in ("approve", "edit"):
        task.approved = _shown(attempt)
        move_task(board, task, Released(), turn)
    elif event.verb == "respond":
        settle_task(memory, board, task, Completed(result=event.value), turn)
    else:
        why = f"{turn.actor} said no" + (f": {event.reason}" if event.reason else "")
        error = TaskError(code="rejected", message=why)
        settled: Event = Stopped(error=error) if question.kind == "approval" else Failed(error=error)
        settle_task(memory, board, task, settled, turn)


def _edited(memory: AgentMemory, attempt: Dispatch, value: Any) -> Dispatch:
    if not isinstance(value, dict):
        raise Refused("an edit gives the new arguments, as a JSON object")
    if next(references(value), None):
        raise Refused("an edit gives values, not references ${…}: what is shown is what runs")
    skill = skill_of(memory.fleet, attempt.device, attempt.skill)
    unknown = [name for name in value if skill is not None and name not in skill.parameter_names()]
    if skill is not None and unknown:
        raise Refused(f"{skill.name} takes {', '.join(skill.parameter_names()) or 'nothing'}, not {', '.join(unknown)}")
    return msgspec.structs.replace(attempt, arguments={**attempt.arguments, **value})


def _check_result(memory: AgentMemory, attempt: Dispatch, value: Any) -> None:
    """A result that a person gives has the fields that the skill's has: what comes after it relies on them."""
    skill = skill_of(memory.fleet, attempt.device, attempt.skill)
    fields = skill.output_fields() if skill else None
    if skill is None or skill.output is None or fields is None:
        return
    if not isinstance(value, dict) or value.keys() - fields or set(skill.output.get("required", ())) - value.keys():
        raise Refused(f"{skill.name} returns an object with {', '.join(skill.output['properties'])}; give the result so")


# -- ending ----------------------------------------------------------------------------------------


def take_end(memory: AgentMemory, board: Board, event: TaskEnded, turn: Turn) -> None:
    """An attempt has ended: settle its task, try it again, or ask a person."""
    attempt = memory.attempts.pop(event.effect)
    task = board.constellation.tasks[attempt.task_id]
    error = event.error
    if error is None:
        settle_task(memory, board, task, Completed(result=event.result), turn)
    elif error.code == "cancelled":
        settle_task(memory, board, task, Stopped(error=error), turn)
    elif error.code == "device_lost" and attempt.redone is not Redo.NEVER and task.attempts < MAX_LOSSES:
        move_task(board, task, Retried(error=error, not_before=turn.at), turn)
    elif task.retry.retries(error.code, repeatable=attempt.redone is not Redo.NEVER) and task.attempts < task.retry.max_attempts:
        not_before = turn.at + _backoff_s(task, event.effect, turn)
        memory.wake(not_before)
        move_task(board, task, Retried(error=error, not_before=not_before), turn)
    elif error.code in ("interrupted", "device_lost"):
        prompt = f"{_named(task)}{_where(attempt)} was interrupted and may have finished ({error.message}). Run it again?"
        inquiry = ask_person(memory, "interruption", attempt, prompt, turn)
        move_task(board, task, Continued(effect=inquiry, inquiry=inquiry), turn)
    else:
        settle_task(memory, board, task, Failed(error=error), turn)
    if attempt.deadline is not None and attempt.deadline <= turn.at and not task.settled:
        memory.wake(attempt.deadline)  # it came while the attempt ran, when it was the dispatcher's to keep


def _backoff_s(task: TaskStar, effect: str, turn: Turn) -> float:
    """Exponential backoff with equal jitter.

    Chance is a hash of the effect's id, recorded because a fork has other ids and waited as long.
    """

    def chance() -> float:
        return zlib.crc32(effect.encode()) / 2**33

    wait_s = min(task.retry.max_backoff_s, task.retry.backoff_s * 2.0 ** min(task.attempts - 1, 30))
    jitter = turn.recorded("jitter", chance)
    return wait_s * (0.5 + jitter)


def settle_task(memory: AgentMemory, board: Board, task: TaskStar, event: Event, turn: Turn) -> None:
    """Settle a task, and note it for the planner."""
    move_task(board, task, event, turn)
    if task.status is TaskStatus.SKIPPED:
        return
    memory.unseen[task.task_id] = None
    _note_moved(memory, task, turn)
    if isinstance(memory.planning, Asked):
        memory.planning.ended_since = True
    if _planner_is_wanted(memory, board, task):
        memory.batch[task.task_id] = None


def _note_moved(memory: AgentMemory, task: TaskStar, turn: Turn) -> None:
    """What moves in the entry that puts a question is part of what the planner is shown."""
    if isinstance(memory.planning, Asked) and memory.planning.asked_at < turn.seq:
        memory.planning.moved[task.task_id] = None


def _planner_is_wanted(memory: AgentMemory, board: Board, task: TaskStar) -> bool:
    if memory.options.replan == "never" or memory.asks >= memory.options.max_asks:
        return False
    if memory.options.replan == "always" or task.status is not TaskStatus.COMPLETED:
        return True
    asked_for = isinstance(task.result, dict) and bool(task.result.get("replan"))
    unmet = any(line.verdict is not None and not line.verdict.satisfied for line in board.constellation.lines_out(task.task_id))
    return asked_for or unmet


def skip_doomed(memory: AgentMemory, board: Board, turn: Turn) -> bool:
    """Skip what can never start, unless the planner still has to answer for what made it so; True if anything changed."""
    if not board.doomed:
        return False
    open_batches = {*memory.open_request.batch, *memory.batch}
    changed, progress = False, True
    while progress:  # bounded: each round settles a task
        progress = False
        for task_id in tuple(board.doomed):
            lines = [line for line in board.constellation.lines_in(task_id) if line.verdict is not None and not line.verdict.satisfied]
            final = next((line for line in lines if line.source not in open_batches), None)
            if final is not None and final.verdict is not None:
                error = TaskError(code="unsatisfied", message=final.verdict.reason)
                settle_task(memory, board, board.constellation.tasks[task_id], Skipped(error=error), turn)
                progress = changed = True
    return changed


def expire(memory: AgentMemory, board: Board, turn: Turn) -> None:
    """Settle what has run out of time: questions, and tasks that have not started.

    Not here: an attempt under way. Its device's dispatcher ends it at the same moment.
    """
    for inquiry, question in tuple(memory.questions.items()):
        task = board.constellation.tasks[question.task_id]
        late = question.attempt.deadline is not None and question.attempt.deadline <= turn.at
        if late or 0 < question.expires_at <= turn.at:
            call_off(memory, inquiry, turn)
            error = TaskError(code="deadline" if late else "rejected", message=f"nobody answered in time: {inquiry}")
            settle_task(memory, board, task, Failed(error=error), turn)
    for task in board.constellation.in_order():
        if task.deadline_s is not None and task.editable and memory.started_at + task.deadline_s <= turn.at:
            error = TaskError(code="deadline", message=f"not started within {task.deadline_s:g} s of the start of the run")
            settle_task(memory, board, task, Failed(error=error), turn)


def call_off(memory: AgentMemory, effect: str, turn: Turn, why: str = "") -> None:
    """Call an attempt or a question off; its outcome will have no consequence."""
    common_rows.call_off(effect, turn, why)
    memory.attempts.pop(effect, None)
    memory.questions.pop(effect, None)


def stop_all(memory: AgentMemory, board: Board, why: str, turn: Turn) -> None:
    """Cancel every task that has not settled, and call off what is outstanding for them."""
    board.startable.clear()
    for task in board.constellation.in_order():
        if task.effect:
            call_off(memory, task.effect, turn, why)
        if not task.settled:
            move_task(board, task, Stopped(error=TaskError(code="cancelled", message=why)), turn)
