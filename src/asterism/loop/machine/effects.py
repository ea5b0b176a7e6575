"""The effects of an orchestration loop, as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from asterism.engine.kernel.machine import Effect, EffectResult, RecoveryPolicy
from asterism.engine.kernel.phrase import Text
from asterism.loop.machine.events import (
    Critiqued,
    ModelReplied,
    PlanMade,
    Reflected,
    Synthesized,
    ToolReturned,
    WorkerEnded,
)
from asterism.loop.machine.model import Finding, Handoff


class _Request(Effect, frozen=True, kw_only=True):
    """A request for a reply; without one, its result has the error."""

    result: ClassVar[Callable[..., EffectResult]]

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return a result without a reply."""
        return self.result(effect_id=effect_id, error=why)


class MakePlan(_Request, tag="make_plan", frozen=True, kw_only=True):
    """Ask for a plan.

    Attributes:
        feedback: reason for another plan; empty for the first.
        number: number of the plan within the run, from 1.
    """

    actor: ClassVar[str] = "planner"
    result: ClassVar = PlanMade

    feedback: Text = ""
    number: int = 1


class RunWorker(Effect, tag="run_worker", frozen=True, kw_only=True):
    """Have a worker carry out a step; the effect's id is the idempotency key.

    Attributes:
        handoff: everything the worker sees.
        idempotent: as declared for the worker.
    """

    logged_as: ClassVar[Callable[[Any], tuple[str, int]] | None] = lambda call: (call.effect.worker, 1)

    step_id: str
    worker: str
    handoff: Handoff
    attempt: int = 1
    idempotent: bool = False
    timeout_s: float | None = None

    @property
    def actor(self) -> str:
        """Return the worker."""
        return f"worker:{self.worker}"

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        """Return RETRY_SAME_KEY for an idempotent worker, else DO_NOT_RETRY."""
        return RecoveryPolicy.RETRY_SAME_KEY if self.idempotent else RecoveryPolicy.DO_NOT_RETRY

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return an interrupted end: the worker may have finished or not."""
        return WorkerEnded(effect_id=effect_id, interrupted=True, finding=Finding(status="failed", reason=why))


class Reflect(_Request, tag="reflect", frozen=True, kw_only=True):
    """Ask the reflection for one word: continue, replan, done or fail."""

    actor: ClassVar[str] = "supervisor"
    result: ClassVar = Reflected

    number: int = 1


class Synthesize(_Request, tag="synthesize", frozen=True, kw_only=True):
    """Ask for the final answer.

    Attributes:
        critique: improvements that the draft needs; empty for the first draft.
    """

    actor: ClassVar[str] = "supervisor"
    result: ClassVar = Synthesized

    critique: str = ""


class Critique(_Request, tag="critique", frozen=True, kw_only=True):
    """Ask for a critique of the draft."""

    actor: ClassVar[str] = "supervisor"
    result: ClassVar = Critiqued


class AskModel(_Request, tag="ask_model", frozen=True, kw_only=True):
    """Send the model conversation of a step to its worker's model.

    Attributes:
        worker: name of the worker, whose model and tools are used.
        handoff: beginning of the conversation.
        round: number of the requested reply within the step, from 1.
    """

    result: ClassVar = ModelReplied

    step_id: str
    worker: str
    handoff: Handoff
    round: int = 1
    timeout_s: float | None = None

    @property
    def actor(self) -> str:
        """Return the worker."""
        return f"worker:{self.worker}"


class CallTool(Effect, tag="call_tool", frozen=True, kw_only=True):
    """Make a tool call that a model requested; the effect's id is the idempotency key.

    Attributes:
        step_id, worker: step and worker of the conversation.
        call_id: the model's id of the call.
        tool, arguments: tool and arguments of the call.
        idempotent: as declared for the tool.
        confirmed: True if a person has approved exactly this call.
    """

    logged_as: ClassVar[Callable[[Any], tuple[str, int]] | None] = lambda use: (use.effect.tool, 1)

    step_id: str
    worker: str
    call_id: str
    tool: str
    arguments: dict[str, Any]
    idempotent: bool = False
    confirmed: bool = False

    @property
    def actor(self) -> str:
        """Return the tool."""
        return f"tool:{self.tool}"

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        """Return RETRY_SAME_KEY for an idempotent tool, else DO_NOT_RETRY."""
        return RecoveryPolicy.RETRY_SAME_KEY if self.idempotent else RecoveryPolicy.DO_NOT_RETRY

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return an interrupted call, which may have been made or not."""
        return ToolReturned(effect_id=effect_id, interrupted=True, reason=why)
