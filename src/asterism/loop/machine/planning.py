"""Requesting, checking and adopting plans."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from asterism.engine.kernel.guards import with_approval
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.phrase import Phrase, phrase
from asterism.loop.machine.effects import MakePlan
from asterism.loop.machine.events import PlanMade
from asterism.loop.machine.memory import GUARDED, LoopMemory
from asterism.loop.machine.model import State, Step


def ask_for_plan(memory: LoopMemory, context: StepContext) -> None:
    """Ask for a plan, or for a better one."""
    memory.plans += 1
    memory.open_call = context.schedule(MakePlan(feedback=memory.feedback, number=memory.plans))


def take_plan(memory: LoopMemory, event: PlanMade, context: StepContext) -> State:
    """Adopt a plan; ask again for an invalid one, a bounded number of times."""
    memory.open_call = ""
    named = with_ids(memory, event.steps)
    wrong = event.error or problem(memory, named)
    if wrong:
        memory.failed_calls += 1
        memory.feedback = wrong
        if memory.failed_calls >= memory.options.max_calls:
            return memory.fail(phrase("loop.planning", tries=memory.failed_calls, why=wrong), context)
        return State.PLANNING
    memory.failed_calls = 0
    memory.feedback = ""
    adopt(memory, named, context)
    return memory.enter(State.EXECUTING)


def adopt(memory: LoopMemory, steps: Sequence[Step], context: StepContext, *, is_given: bool = False) -> None:
    """Make these steps the plan; ``is_given`` says that they came with the request."""
    context.touch("task", *(step.step_id for step in (*memory.plan, *steps)))
    memory.plan, memory.position = list(steps), 0
    memory.again.clear()
    if context.rules >= GUARDED:
        concerning = memory.guards.concerning if is_given else memory.guards.of_plan
        memory.concerned_by = {step.step_id: concerning for step in steps}
        if guarded := {step.worker for step in steps if step.requires_approval}:
            memory.guards = with_approval(memory.guards, sorted(guarded))  # a later plan does not drop the approval


def problem(memory: LoopMemory, steps: Sequence[Step]) -> Phrase | None:
    """Return the reason why these steps are not a valid plan; None if they are."""
    known = {finding.step_id for finding in memory.findings}
    group: list[str] = []
    before = ""
    seen: set[str] = set()
    for step in steps:
        if step.step_id in seen:
            return phrase("loop.two_steps", step=step.step_id)
        seen.add(step.step_id)
        if not step.group or step.group != before:
            known.update(group)
            group = []
        for worker in (step.worker, *step.alternatives):
            if worker not in memory.workers:
                return phrase("loop.no_worker", step=step.step_id, worker=worker, workers=[*memory.workers])
        for used in step.uses:
            if used not in known:
                return phrase("loop.no_step_before", step=step.step_id, used=used)
        group.append(step.step_id)
        before = step.group
    return None


def with_ids(memory: LoopMemory, steps: Sequence[Step]) -> list[Step]:
    """Return the steps, each with an id; steps without one are numbered on."""
    start = len(memory.findings) + 1
    return [step if step.step_id else msgspec.structs.replace(step, step_id=f"step_{start + n}") for n, step in enumerate(steps)]
