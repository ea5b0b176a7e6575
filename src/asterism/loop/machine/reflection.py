"""REFLECTING: the calls of supervising functions, the meaning of the word, and the strategies."""

from __future__ import annotations

import string

from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.phrase import Text, phrase
from asterism.loop.machine.effects import Critique, Reflect, Synthesize
from asterism.loop.machine.events import Critiqued, Reflected, Synthesized
from asterism.loop.machine.memory import Activity, LoopMemory
from asterism.loop.machine.model import Decision, Finding, State, Strategy

_AROUND = string.whitespace + string.punctuation
_FUNCTIONS = {Reflected: "loop.reflection", Synthesized: "loop.synthesis", Critiqued: "loop.critique"}


def one_word(said: str) -> Decision:
    """Return the decision of a one-word reply, in any case and punctuation; else CONTINUE."""
    word = said.strip(_AROUND).casefold()
    return next((decision for decision in Decision if decision == word), Decision.CONTINUE)


def is_ok(said: str) -> bool:
    """Return True if a critique is ``ok``; any other text names improvements."""
    return said.strip(_AROUND).casefold() == "ok"


def ask_supervisor(memory: LoopMemory, context: StepContext) -> State:
    """Call the function of the stage (reflect, synthesize, critique).

    Return FAILED past a limit.
    """
    if memory.stage == "reflect":
        if memory.reflections >= memory.options.max_reflections:
            return memory.fail(phrase("loop.max_reflections", times=memory.reflections), context)
        memory.reflections += 1
        memory.open_call = context.schedule(Reflect(number=memory.reflections))
    elif memory.stage == "synthesize":
        memory.open_call = context.schedule(Synthesize(critique=memory.critique))
    else:
        memory.open_call = context.schedule(Critique())
    return State.REFLECTING


def take_reply(memory: LoopMemory, event: Reflected | Synthesized | Critiqued, context: StepContext) -> State:
    """Handle the reply of a supervising function.

    A failed call is repeated a bounded number of times.
    """
    memory.open_call = ""
    if event.error:
        memory.failed_calls += 1
        if memory.failed_calls < memory.options.max_calls:
            return State.REFLECTING
        return memory.fail(phrase(_FUNCTIONS[type(event)], times=memory.failed_calls, why=event.error), context)
    memory.failed_calls = 0
    match event:
        case Reflected():
            return _take_word(memory, event, context)
        case Synthesized():
            return _take_draft(memory, event)
        case Critiqued():
            return _take_critique(memory, event)


# -- the word --------------------------------------------------------------------------------------


def _take_word(memory: LoopMemory, event: Reflected, context: StepContext) -> State:
    decision = one_word(event.reply)
    strategy = event.strategy
    if strategy is None and decision is Decision.CONTINUE:
        strategy = _structural(memory)
    if strategy in (Strategy.RETRY, Strategy.RETRY_ELSEWHERE) and not any(it.failed for it in memory.latest_findings()):
        strategy, decision = None, Decision.CONTINUE  # nothing failed, so there is nothing to retry
    if strategy is not None:
        return _apply(memory, strategy, context)
    if decision is Decision.FAIL:
        return memory.give_up("reflection", phrase("loop.reflection_fails", failures=_failures(memory)), context)
    if decision is Decision.REPLAN:
        return _replan(memory, "", context)
    if decision is Decision.DONE or memory.exhausted:
        memory.stage = "synthesize"
        return State.REFLECTING
    return memory.enter(State.EXECUTING)


def _structural(memory: LoopMemory) -> Strategy | None:
    """Return the strategy that the options prescribe for failures or a stall; None for none."""
    failures = max((memory.failures[finding.step_id] for finding in memory.latest_findings() if finding.failed), default=0)
    if 0 < failures <= len(memory.options.recovery):
        return memory.options.recovery[failures - 1]
    if memory.stalled >= memory.options.stall_after:
        return memory.options.when_stalled
    return None


def _failures(memory: LoopMemory) -> list[Text]:
    """Return the steps that have just failed, each with its reason."""
    bad = [finding for finding in memory.latest_findings() if finding.status != "ok"]
    return [phrase("loop.step_failed", step=finding.step_id, why=finding.reason or finding.status) for finding in bad]


# -- strategies ------------------------------------------------------------------------------------


def _apply(memory: LoopMemory, strategy: Strategy, context: StepContext) -> State:
    failures = _failures(memory)
    if strategy == Strategy.GIVE_UP:
        return memory.fail(phrase("loop.given_up", failures=failures), context)
    if strategy == Strategy.DECOMPOSE:
        return _replan(memory, phrase("loop.smaller_steps", failures=failures), context)
    if strategy == Strategy.ASK_USER:
        memory.question = phrase("loop.how_to_continue", failures=failures)
        return memory.enter(State.EXECUTING)
    for finding in [finding for finding in memory.latest_findings() if finding.failed]:
        again = _again(memory, finding, elsewhere=strategy == Strategy.RETRY_ELSEWHERE)
        if again is None:
            return memory.give_up("given_up", phrase("loop.no_other_worker", step=finding.step_id, why=finding.reason), context)
        if again.attempt > memory.options.max_attempts:
            why = phrase("loop.max_attempts", step=finding.step_id, attempts=finding.attempt, why=finding.reason)
            return memory.fail(why, context)
        memory.again.append(again)
        context.touch("task", finding.step_id)
    return memory.enter(State.EXECUTING)


def _again(memory: LoopMemory, finding: Finding, *, elsewhere: bool) -> Activity | None:
    """Return a failed step to begin again; None if no alternative worker is left."""
    step = next(step for step in memory.plan if step.step_id == finding.step_id)
    able = [step.worker, *step.alternatives]
    if elsewhere and finding.worker == able[-1]:
        return None
    worker = able[able.index(finding.worker) + 1] if elsewhere else finding.worker
    return Activity(step=step, worker=worker, attempt=finding.attempt + 1)


def _replan(memory: LoopMemory, feedback: Text, context: StepContext) -> State:
    if memory.replans >= memory.options.max_replans:
        return memory.fail(phrase("loop.max_replans", times=memory.replans), context)
    memory.replans += 1
    memory.feedback = feedback
    return memory.enter(State.PLANNING)


# -- the answer ------------------------------------------------------------------------------------


def _take_draft(memory: LoopMemory, event: Synthesized) -> State:
    memory.draft = event.answer
    if memory.has_critique and memory.revisions < memory.options.max_revisions:
        memory.stage = "critique"
        return State.REFLECTING
    return _complete(memory)


def _take_critique(memory: LoopMemory, event: Critiqued) -> State:
    if is_ok(event.reply):
        return _complete(memory)
    memory.revisions += 1
    memory.critique = event.reply
    memory.stage = "synthesize"
    return State.REFLECTING


def _complete(memory: LoopMemory) -> State:
    memory.code, memory.answer = "finished", memory.draft
    return memory.enter(State.COMPLETE)
