"""What an orchestration loop asks for. Plain data."""

from __future__ import annotations

from typing import Any

from asterism.kernel.machine import Effect, EffectResult, RecoveryPolicy
from asterism.machines.orchestration_loop.events import (
    Critiqued,
    ModelReplied,
    PlanMade,
    Reflected,
    Synthesized,
    ToolReturned,
    WorkerEnded,
)
from asterism.machines.orchestration_loop.model import Finding, Handoff


class MakePlan(Effect, tag="make_plan", frozen=True, kw_only=True):
    """Ask for a plan.

    Attributes:
        feedback: why it is asked again; empty for the first.
        number: which plan of the run this is, from 1.
    """

    feedback: str = ""
    number: int = 1

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return "planner"

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """No plan was heard."""
        return PlanMade(effect_id=effect_id, error=why)


class RunWorker(Effect, tag="run_worker", frozen=True, kw_only=True):
    """Have a worker carry out a step; its id is the idempotency key.

    Attributes:
        step_id: of the step.
        worker: who does it.
        handoff: all that the worker sees.
        attempt: which try this is, from 1.
        idempotent: what the worker was declared to be.
        timeout_s: bound; None for none.
    """

    step_id: str
    worker: str
    handoff: Handoff
    attempt: int = 1
    idempotent: bool = False
    timeout_s: float | None = None

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return f"worker:{self.worker}"

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        """What a crash means for it."""
        return RecoveryPolicy.RETRY_SAME_KEY if self.idempotent else RecoveryPolicy.DO_NOT_RETRY

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """Whether it finished is not known."""
        return WorkerEnded(effect_id=effect_id, interrupted=True, finding=Finding(status="failed", reason=why))


class Reflect(Effect, tag="reflect", frozen=True, kw_only=True):
    """Ask for one word: continue, replan, done or fail."""

    number: int = 1

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return "supervisor"

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """No word was heard."""
        return Reflected(effect_id=effect_id, error=why)


class Synthesize(Effect, tag="synthesize", frozen=True, kw_only=True):
    """Ask for the final answer.

    Attributes:
        critique: what is to be better than in the draft; empty for the first.
    """

    critique: str = ""

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return "supervisor"

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """No answer was heard."""
        return Synthesized(effect_id=effect_id, error=why)


class Critique(Effect, tag="critique", frozen=True, kw_only=True):
    """Ask whether the draft will do."""

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return "supervisor"

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """Nothing was heard."""
        return Critiqued(effect_id=effect_id, error=why)


class AskModel(Effect, tag="ask_model", frozen=True, kw_only=True):
    """Put a step's conversation to its worker's model.

    Attributes:
        step_id: of the step.
        worker: whose model, and whose tools.
        handoff: what the conversation begins with.
        round: which reply of the step is asked for, from 1.
        timeout_s: bound on the reply; None for none.
    """

    step_id: str
    worker: str
    handoff: Handoff
    round: int = 1
    timeout_s: float | None = None

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return f"worker:{self.worker}"

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """No reply was heard."""
        return ModelReplied(effect_id=effect_id, error=why)


class CallTool(Effect, tag="call_tool", frozen=True, kw_only=True):
    """Make a tool call that a model asked for; its id is the idempotency key.

    Attributes:
        step_id, worker: whose conversation it belongs to.
        call_id: the model's name for it.
        tool, arguments: what is called.
        idempotent: what the tool was declared to be.
        confirmed: a person has said yes to exactly this.
    """

    step_id: str
    worker: str
    call_id: str
    tool: str
    arguments: dict[str, Any]
    idempotent: bool = False
    confirmed: bool = False

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return f"tool:{self.tool}"

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        """What a crash means for it."""
        return RecoveryPolicy.RETRY_SAME_KEY if self.idempotent else RecoveryPolicy.DO_NOT_RETRY

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """Whether it was carried out is not known."""
        return ToolReturned(effect_id=effect_id, interrupted=True, result={"status": "failed", "reason": why})
