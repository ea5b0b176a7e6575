"""A test harness for the orchestration loop: feeds it events without a driver or user functions."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from asterism.engine.control.run_control import Answered, AskPerson, Verb
from asterism.engine.kernel.guards import Guards
from asterism.engine.kernel.machine import Effect
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
from asterism.loop.machine.model import Finding, LoopOptions, Step, Strategy, ToolCall, WorkerProfile
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from tests.support.machine_harness import MachineHarness

E = TypeVar("E", bound=Effect)

WORKERS = (
    WorkerProfile(name="w", idempotent=True),
    WorkerProfile(name="once"),
    WorkerProfile(name="asks", requires_approval=True),
    WorkerProfile(name="model", converses=True),
)


def steps(*names: str, group: str = "", **more: Any) -> tuple[Step, ...]:
    """Return steps from names: ``a`` for worker w, ``a:once`` for worker once."""
    return tuple(
        Step(step_id=name.partition(":")[0], worker=name.partition(":")[2] or "w", intent=name, group=group, **more) for name in names
    )


class Loop(MachineHarness[LoopMemory]):
    """One run of the orchestration loop.

    Args:
        plan: given with the request, or none to have it asked for.
    """

    def __init__(
        self,
        *plan: Step,
        at: float = 1000.0,
        critiques: bool = False,
        workers: tuple[WorkerProfile, ...] = WORKERS,
        guards: Guards = Guards(),  # noqa: B008 - frozen
        **options: Any,
    ) -> None:
        first = LoopSubmitted(
            request="do it", workers=workers, guards=guards, plan=plan, options=LoopOptions(**options), has_critique=critiques
        )
        super().__init__(ORCHESTRATION_LOOP, first, at)

    # -- what is there -------------------------------------------------------------------------------

    @property
    def states(self) -> list[str]:
        """Return every state of the run in order."""
        found: list[str] = []
        for entry in self.entries:
            if not found or found[-1] != entry.state:
                found.append(str(entry.state))
        return found

    def outstanding(self, kind: type[E]) -> dict[str, E]:
        """Return the outstanding effects of a type that are not cancelled, by id."""
        return {key: it for key, it in self.run.outstanding.items() if isinstance(it, kind) and key not in self.run.cancelled_effects}

    def working(self) -> list[str]:
        """Return the ids of the active steps."""
        return [effect.step_id for effect in self.outstanding(RunWorker).values()]

    def asked(self) -> list[AskPerson]:
        return list(self.outstanding(AskPerson).values())

    def effect(self, kind: type[Effect], **fields: Any) -> str:
        """Return the id of the first outstanding effect of a type with these fields."""
        found = self.outstanding(kind).items()
        return next(key for key, it in found if all(getattr(it, name) == value for name, value in fields.items()))

    # -- what happens --------------------------------------------------------------------------------

    def plans(self, *plan: Step, error: str = "") -> None:
        self.batch(PlanMade(effect_id=self.effect(MakePlan), steps=plan, error=error))

    def end_of(self, step_id: str, output: Any = None, **more: Any) -> WorkerEnded:
        return WorkerEnded(effect_id=self.effect(RunWorker, step_id=step_id), finding=Finding(output=output, **more))

    def ends(self, step_id: str, output: Any = "found", **more: Any) -> None:
        self.batch(self.end_of(step_id, output, **more))

    def fails(self, step_id: str, reason: str = "no") -> None:
        self.ends(step_id, None, status="failed", reason=reason)

    def says(self, said: str = "continue", strategy: Strategy | None = None, **more: Any) -> None:
        self.batch(Reflected(effect_id=self.effect(Reflect), reply=said, strategy=strategy, **more))

    def answers_with(self, answer: Any = "the answer", **more: Any) -> None:
        self.batch(Synthesized(effect_id=self.effect(Synthesize), answer=answer, **more))

    def criticises(self, said: str) -> None:
        self.batch(Critiqued(effect_id=self.effect(Critique), reply=said))

    def replies(self, text: str = "", *calls: ToolCall, **more: Any) -> None:
        self.batch(ModelReplied(effect_id=self.effect(AskModel), text=text, calls=calls, **more))

    def returns(self, call_id: str, result: Any = "ok", **more: Any) -> None:
        self.batch(ToolReturned(effect_id=self.effect(CallTool, call_id=call_id), result=result, **more))

    def answer(self, verb: Verb, value: Any = None, reason: str = "", number: int = 0) -> Answered:
        return Answered(effect_id=list(self.outstanding(AskPerson))[number], verb=verb, value=value, reason=reason)

    def answers(self, verb: Verb, value: Any = None, reason: str = "", number: int = 0) -> None:
        self.batch(self.answer(verb, value, reason, number))

    def step_once(self) -> None:
        self.batch(StepOnce())

    def assert_replays(self) -> None:
        """Check that the replayed journal equals the live run."""
        again = self.replayed()
        assert msgspec.to_builtins(again.memory) == msgspec.to_builtins(self.memory)
        assert (again.state, again.seq, again.outstanding) == (self.run.state, self.run.seq, self.run.outstanding)
