"""Small worlds of an orchestration loop: every order of findings, words, strategies, answers, cancels and crashes over a short plan.

A worker that is a model replies once with two calls, a harmless and a destructive one, and then with what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from asterism.engine.control.children import ChildBlocked, ChildEnded, ChildSignaled, SignalChild, StartChild
from asterism.engine.control.run_control import Answered, AskPerson
from asterism.engine.kernel.machine import Effect, Event, kind_of
from asterism.engine.kernel.profile import ChildSpec
from asterism.engine.kernel.run import Run
from asterism.loop.machine.effects import AskModel, CallTool, Critique, MakePlan, Reflect, RunWorker, Synthesize
from asterism.loop.machine.events import (
    Critiqued,
    LoopSubmitted,
    ModelReplied,
    PlanMade,
    Reflected,
    StepOnce,
    Synthesized,
    ToolReturned,
    WorkerEnded,
)
from asterism.loop.machine.memory import LoopMemory
from asterism.loop.machine.model import Decision, Finding, Later, LoopOptions, State, Step, Strategy, ToolCall, WorkerProfile
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.testing.invariants import InvariantViolated
from tests.simulation.exploration.small_run import Budget, Move, Situation, SmallRun

BELOW = ChildSpec(machine="orchestration loop", definition={})
WORKERS = (
    WorkerProfile(name="safe", idempotent=True),
    WorkerProfile(name="once"),
    WorkerProfile(name="asks", requires_approval=True),
    WorkerProfile(name="model", converses=True),
    WorkerProfile(name="child", child=BELOW),
)
CALLS = (ToolCall(call_id="c1", tool="look", idempotent=True), ToolCall(call_id="c2", tool="remove", gate="destructive"))


def small_steps(count: int, *, groups: str = "", workers: Sequence[str] = ("safe", "once", "asks")) -> tuple[Step, ...]:
    """So many steps, whose workers take turns.

    Args:
        count: how many.
        workers: names of those, of ``WORKERS``.
        groups: the group of each, a letter, or a dash for none: ``"aa-"`` is two in parallel and then one; none where it is empty.
    """
    names = groups or "-" * count
    return tuple(
        Step(
            step_id=f"s{number}",
            worker=workers[number % len(workers)],
            intent="work",
            group=names[number].strip("-"),
            alternatives=("safe",),
        )
        for number in range(count)
    )


class LoopSpace(SmallRun[LoopMemory]):
    """What can happen to one loop.

    Args:
        plan: its steps; whoever makes a new plan makes the same again.
        budget: how much trouble there may be; words other than continue and done are ``edits``.
        options: its bounds.
        critiques: its answer is criticised.
    """

    def __init__(
        self,
        plan: tuple[Step, ...],
        budget: Budget,
        *,
        options: LoopOptions = LoopOptions(max_replans=1),  # noqa: B008 - frozen
        critiques: bool = False,
    ) -> None:
        super().__init__(ORCHESTRATION_LOOP, budget)
        self._plan = plan
        self._options = options
        self._critiques = critiques

    def first(self) -> Event:
        """The plan is asked for."""
        return LoopSubmitted(request="small", workers=WORKERS, options=self._options, has_critique=self._critiques)

    def name_of(self, effect: Effect) -> str:
        """The step and the attempt, or what is asked."""
        if isinstance(effect, RunWorker):
            return f"{effect.step_id}#{effect.attempt}"
        if isinstance(effect, AskModel):
            return f"{effect.step_id}, reply {effect.round}"
        if isinstance(effect, CallTool):
            return f"{effect.step_id}, {effect.tool} {effect.arguments}"
        if isinstance(effect, SignalChild):
            return f"{effect.command['type']} goes down"
        if isinstance(effect, AskPerson):
            return f"question about {effect.subject.get('step_id') or effect.subject.get('tool')}: {', '.join(effect.verbs)}"
        return kind_of(effect)

    def outcomes(self, state: Situation[LoopMemory], effect_id: str, effect: Effect) -> Iterator[Move[LoopMemory]]:
        """What workers, supervising functions and people may say."""
        name = self.name_of(effect)
        for told, event, spend in self._said(effect_id, effect):
            if not spend or getattr(state.left, spend):
                yield f"{name}: {told}", lambda event=event, spend=spend: self.take(state, [event], spend=spend)  # type: ignore[misc]

    def _said(self, effect_id: str, effect: Effect) -> Iterator[tuple[str, Event, str]]:
        """What may come of an effect: in words, as an event, and what it takes of the budget."""
        match effect:
            case RunWorker():
                yield "found", WorkerEnded(effect_id=effect_id, finding=Finding(output=effect.step_id)), ""
                yield "failed", WorkerEnded(effect_id=effect_id, finding=Finding(status="failed", reason="no")), "failures"
                yield "later", WorkerEnded(effect_id=effect_id, later=Later(key="k")), "edits"
            case AskModel() | CallTool() | StartChild() | SignalChild():
                yield from self._said_below(effect_id, effect)
            case Reflect():
                for word in Decision:
                    yield word, Reflected(effect_id=effect_id, reply=word), "" if word in ("continue", "done") else "edits"
                for strategy in Strategy:
                    yield strategy, Reflected(effect_id=effect_id, strategy=strategy), "edits"
                yield "error", Reflected(effect_id=effect_id, error="no"), "edits"
            case MakePlan():
                yield "made", PlanMade(effect_id=effect_id, steps=self._plan), ""
                yield "none", PlanMade(effect_id=effect_id), "edits"
                yield "error", PlanMade(effect_id=effect_id, error="no"), "edits"
            case Synthesize():
                yield "answer", Synthesized(effect_id=effect_id, answer="so"), ""
                yield "error", Synthesized(effect_id=effect_id, error="no"), "edits"
            case Critique():
                yield "ok", Critiqued(effect_id=effect_id, reply="ok"), ""
                yield "better", Critiqued(effect_id=effect_id, reply="better"), "edits"
            case AskPerson():
                for verb in effect.verbs:
                    value = {"x": 1} if verb == "edit" else "said" if verb == "respond" else None
                    yield verb, Answered(effect_id=effect_id, verb=verb, value=value), ""
            case _:
                raise TypeError(f"a small loop does not ask for {type(effect).__name__}")

    def _said_below(self, effect_id: str, effect: AskModel | CallTool | StartChild | SignalChild) -> Iterator[tuple[str, Event, str]]:
        match effect:
            case AskModel():
                yield "it is so", ModelReplied(effect_id=effect_id, text="so"), ""
                yield "error", ModelReplied(effect_id=effect_id, error="no"), "failures"
                if effect.round == 1:
                    yield "calls", ModelReplied(effect_id=effect_id, calls=CALLS), ""
            case CallTool():
                yield "returns", ToolReturned(effect_id=effect_id, result="ok"), ""
                yield "was interrupted", ToolReturned(effect_id=effect_id, interrupted=True), "failures"
            case StartChild():
                yield "finished", ChildEnded(effect_id=effect_id, outcome="finished", result={"answer": 1}), ""
                yield "failed", ChildEnded(effect_id=effect_id, outcome="failed", code="no", reason="no"), "failures"
            case SignalChild():
                yield "done", ChildSignaled(effect_id=effect_id), ""

    def commands(self, state: Situation[LoopMemory]) -> Iterator[Move[LoopMemory]]:
        """One transition at a time, for whoever has paused it."""
        if state.run.memory.paused and state.left.pauses:
            yield "step", lambda: self.take(state, [StepOnce()], spend="pauses")
        for child in sorted(state.run.memory.children()):
            rested = ChildBlocked(effect_id=child, blocked=child not in state.run.memory.blocked_children)
            yield f"the child {'rests' if rested.blocked else 'goes on'}", lambda rested=rested: self.take(state, [rested])  # type: ignore[misc]

    def watch(self, run: Run[LoopMemory]) -> Callable[[Event], None]:
        """No step begins before its turn, while it is paused, without its yes, or beyond a bound."""
        before = set(run.outstanding)
        was_paused = run.memory.paused
        return lambda _: _check_starts(run, before, was_paused=was_paused)


def _check_starts(run: Run[LoopMemory], before: set[str], *, was_paused: bool) -> None:
    memory, options = run.memory, run.memory.options
    begun = [effect for effect_id, effect in run.outstanding.items() if isinstance(effect, RunWorker) and effect_id not in before]
    under_way = [
        effect for effect_id, effect in run.outstanding.items() if isinstance(effect, RunWorker) and effect_id not in run.abandoned
    ]
    if len(under_way) > options.max_parallel:
        raise InvariantViolated(2, f"{len(under_way)} steps are under way at once (max_parallel {options.max_parallel})", run.history)
    found = {finding.step_id for finding in memory.findings}
    order = [step.step_id for step in memory.plan]
    for effect in begun:
        activity = memory.active[effect.step_id]
        earlier = [
            step.step_id for step in memory.plan[: order.index(effect.step_id)] if not step.group or step.group != activity.step.group
        ]
        if missing := [step_id for step_id in earlier if step_id not in found]:
            raise InvariantViolated(2, f"{effect.step_id} began before {', '.join(missing)} had come to anything", run.history)
        if was_paused:
            raise InvariantViolated(2, f"{effect.step_id} began while it was paused", run.history)
        if memory.workers[effect.worker].requires_approval and not activity.approved:
            raise InvariantViolated(9, f"{effect.step_id} began without a yes", run.history)
        if effect.attempt > options.max_attempts:
            raise InvariantViolated(
                8, f"{effect.step_id} is tried {effect.attempt} times (max_attempts {options.max_attempts})", run.history
            )
    calls = [effect for effect_id, effect in run.outstanding.items() if isinstance(effect, CallTool) and effect_id not in before]
    if unconfirmed := [call.tool for call in calls if call.tool == "remove" and not call.confirmed]:
        raise InvariantViolated(9, f"{unconfirmed} is called without a yes", run.history)
    if run.state == State.COMPLETE and memory.answer is None:
        raise InvariantViolated(8, "it is complete, and has no answer", run.history)
