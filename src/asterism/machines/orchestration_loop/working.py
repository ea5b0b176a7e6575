"""How steps are begun and ended: claimed from the plan, handed to workers, settled with a finding."""

from __future__ import annotations

from typing import Any

from asterism.kernel.machine import Turn
from asterism.machines.orchestration_loop.conversing import begin_round, make_calls
from asterism.machines.orchestration_loop.effects import RunWorker
from asterism.machines.orchestration_loop.ending import fail
from asterism.machines.orchestration_loop.events import WorkerEnded
from asterism.machines.orchestration_loop.memory import Activity, LoopMemory
from asterism.machines.orchestration_loop.model import State, Step
from asterism.machines.orchestration_loop.people import ask_about

USER = "user"
"""The worker of a step that is a question to the user."""


def claim(memory: LoopMemory, turn: Turn) -> State | None:
    """Begin the next steps: those to be done once more, a question to the user, or the next group of the plan.

    Returns:
        FAILED where a bound stands in the way; else None.
    """
    if memory.question:
        step = Step(step_id=f"question_{len(memory.findings) + 1}", worker=USER, intent=memory.question)
        memory.active[step.step_id] = Activity(step=step, worker=USER)
        memory.question = ""
    elif memory.again:
        memory.active = {activity.step.step_id: activity for activity in memory.again}
        memory.again = []
    else:
        begun = _next_group(memory)
        memory.position += len(begun)
        memory.active = {step.step_id: Activity(step=step, worker=step.worker) for step in begun}
    memory.steps += len(memory.active)
    if memory.steps > memory.options.max_steps:
        return fail(memory, "max_steps", f"more than {memory.options.max_steps} steps were to be begun (max_steps)", turn)
    return None


def _next_group(memory: LoopMemory) -> list[Step]:
    group: list[Step] = []
    for step in memory.plan[memory.position :]:
        if group and (not step.group or step.group != group[0].group):
            break
        group.append(step)
    return group


def start_ready(memory: LoopMemory, turn: Turn) -> bool:
    """Start what can be started for the steps that were begun, within the bound on parallel work; True if anything changed."""
    at_once = sum(activity.under_way for activity in memory.active.values())
    changed = False
    for activity in memory.active.values():
        if activity.settled or activity.effect or activity.question.inquiry:
            continue
        if not activity.under_way and at_once >= memory.options.max_parallel:
            continue
        was_under_way = activity.under_way
        changed = _start(memory, activity, turn) or changed
        at_once += activity.under_way and not was_under_way
    return changed


def _start(memory: LoopMemory, activity: Activity, turn: Turn) -> bool:
    if activity.worker == USER:
        ask_about(memory, activity, "question", activity.step.intent, turn)
        return True
    profile = memory.workers[activity.worker]
    if (profile.requires_approval or activity.step.requires_approval) and not activity.approved:
        prompt = f"Let {activity.worker} do {activity.step.step_id} ({activity.step.intent})?"
        ask_about(memory, activity, "approval", prompt, turn)
        return True
    if profile.converses:
        changed = make_calls(memory, activity, turn)
        if all(call.done for call in activity.calls):
            begin_round(memory, activity, turn)
            changed = True
        return changed
    activity.effect = turn.perform(
        RunWorker(
            step_id=activity.step.step_id,
            worker=activity.worker,
            handoff=memory.handoff(activity),
            attempt=activity.attempt,
            idempotent=profile.idempotent,
            timeout_s=profile.timeout_s,
        )
    )
    return True


def standing(memory: LoopMemory) -> State:
    """The state that what is under way amounts to."""
    unsettled = [activity for activity in memory.active.values() if not activity.settled]
    if not unsettled:
        return State.OBSERVING
    if any(activity.under_way or not any(activity.questions()) for activity in unsettled):
        return memory.home
    about = {question.about for activity in unsettled for question in activity.questions()}
    return State.CONFIRMING if "confirmation" in about else State.WAITING


def take_end(memory: LoopMemory, event: WorkerEnded, turn: Turn) -> None:
    """A worker has ended: settle its step, wait for what comes later, or ask a person whether it did its work."""
    activity = activity_of(memory, event.effect)
    activity.effect = ""
    memory.tokens += event.tokens
    if event.later is not None:
        ask_about(memory, activity, "later", event.later.prompt or f"the result of {event.later.key}", turn, awaits=event.later.key)
    elif event.interrupted:
        named = f"{activity.step.step_id} ({activity.step.intent})"
        prompt = f"{activity.worker} was interrupted in {named} and may have finished. Run it again?"
        ask_about(memory, activity, "interruption", prompt, turn)
    else:
        activity.settle(event.finding)


def activity_of(memory: LoopMemory, effect: str) -> Activity:
    """The activity that an outstanding effect belongs to."""
    return next(activity for activity in memory.active.values() if effect in activity.effects())


def observe(memory: LoopMemory) -> None:
    """Take what the steps have found into the record, and note what the reflection should know of it."""
    seen = [finding.output for finding in memory.findings]
    found = [activity.finding for activity in memory.active.values() if activity.finding is not None]
    memory.active.clear()
    memory.findings += found
    memory.latest = len(found)
    for finding in found:
        if finding.failed:
            memory.failures[finding.step_id] = memory.failures.get(finding.step_id, 0) + 1
    is_new = any(finding.status == "ok" and _is_something(finding.output) and finding.output not in seen for finding in found)
    memory.stalled = 0 if is_new else memory.stalled + 1


def _is_something(output: Any) -> bool:
    return output is not None and output not in ("", [], {})
