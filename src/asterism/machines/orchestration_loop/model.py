"""What an orchestration loop speaks of: states, steps, handoffs, findings, workers, bounds. Plain data."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from asterism.constellation.profile import ChildSpec


class State(StrEnum):
    """States of an orchestration loop; the last three extend the seven."""

    PLANNING = "PLANNING"
    EXECUTING = "EXECUTING"
    OBSERVING = "OBSERVING"
    REFLECTING = "REFLECTING"
    WAITING = "WAITING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    PARALLEL = "PARALLEL"
    CONFIRMING = "CONFIRMING"
    CANCELLED = "CANCELLED"


class Decision(StrEnum):
    """The word that a reflection answers."""

    CONTINUE = "continue"
    REPLAN = "replan"
    DONE = "done"
    FAIL = "fail"


class Strategy(StrEnum):
    """What may be done about a step that failed, or a loop that comes no further; chosen in REFLECTING."""

    RETRY = "retry"
    RETRY_ELSEWHERE = "retry_elsewhere"
    DECOMPOSE = "decompose"
    ASK_USER = "ask_user"
    GIVE_UP = "give_up"


Count = Annotated[int, msgspec.Meta(ge=1)]


class LoopOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a loop behaves; the bounds of everything that could go on for ever. Past one, it is FAILED and names it.

    Attributes:
        max_steps: steps begun, repeated ones included.
        max_parallel: steps under way at once.
        max_attempts: times one step is tried.
        max_replans: plans made after the first.
        max_reflections: reflections in all.
        max_revisions: times the answer is written again because of its critique; then it is taken as it is.
        max_calls: how often in a row one supervising function (plan, reflect, synthesize, critique) is called that raises or is refused.
        max_rounds: replies of a model within one step.
        max_tokens: tokens of all models together; None for no limit.
        wall_limit_s: seconds from the start.
        inquiry_timeout_s: how long a question to a person stays open; None for ever (but for the wall limit).
        recovery: what is done when a step fails and the reflection says continue: the first item after its first failure, and so on.
        stall_after: so many steps without new output are a stall.
        when_stalled: what is done about a stall when the reflection says continue; None for nothing.
    """

    max_steps: Count = 500
    max_parallel: Count = 16
    max_attempts: Count = 3
    max_replans: Annotated[int, msgspec.Meta(ge=0)] = 5
    max_reflections: Count = 1000
    max_revisions: Annotated[int, msgspec.Meta(ge=0)] = 2
    max_calls: Count = 2
    max_rounds: Count = 30
    max_tokens: Count | None = None
    wall_limit_s: Annotated[float, msgspec.Meta(gt=0)] = 7 * 86400.0
    inquiry_timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    recovery: tuple[Strategy, ...] = ()
    stall_after: Count = 3
    when_stalled: Strategy | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One step of a plan.

    Attributes:
        step_id: unique in its plan; given where it is empty.
        worker: who does it.
        intent: what is wanted, in words.
        context: what the worker is told besides (JSON object).
        uses: ids of earlier steps whose outputs it gets as artifacts.
        group: consecutive steps of one group run in parallel; empty for a step by itself.
        requires_approval: a person must say yes first.
        alternatives: workers that may do it if the first cannot.
    """

    worker: str
    intent: str
    step_id: str = ""
    context: dict[str, Any] = msgspec.field(default_factory=dict)
    uses: tuple[str, ...] = ()
    group: str = ""
    requires_approval: bool = False
    alternatives: tuple[str, ...] = ()


class Handoff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a worker sees.

    Attributes:
        from_: who hands over (``from`` in JSON).
        to: the worker.
        intent: what is wanted, in words.
        context: JSON object from the plan.
        artifacts: outputs of the steps that this one uses, by step id.
        key: the idempotency key; the same again after a crash.
    """

    from_: str = msgspec.field(name="from")
    to: str
    intent: str
    context: dict[str, Any] = msgspec.field(default_factory=dict)
    artifacts: dict[str, Any] = msgspec.field(default_factory=dict)
    key: str = ""


FindingStatus = Literal["ok", "failed", "timeout", "denied"]


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has come of a step.

    Attributes:
        output: JSON; what the worker found.
        status: ``denied`` says that a person did not want it; that is no failure.
        reason: why it is not ``ok``.
        feedback: what the person who denied it has said.
        step_id, worker, attempt: filled in by the loop.
    """

    output: Any = None
    status: FindingStatus = "ok"
    reason: str = ""
    feedback: str = ""
    step_id: str = ""
    worker: str = ""
    attempt: int = 1

    @property
    def failed(self) -> bool:
        """True where the step did not do what it was for, though nobody forbade it."""
        return self.status in ("failed", "timeout")


class Later(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker returns whose result comes later, from outside.

    Attributes:
        key: how whoever brings the result names it.
        prompt: for people who look at what the loop waits for.
    """

    key: str
    prompt: str = ""


class WorkerProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a loop knows of a worker.

    Attributes:
        name: unique in its loop.
        description: for whoever plans.
        converses: it is a model with tools, whose replies and calls are journaled one by one.
        idempotent: performing it again under the same key after a crash does no harm.
        requires_approval: a person must say yes to each of its steps.
        timeout_s: bound on one attempt; None for none.
        child: given where it is a run of its own.
    """

    name: str
    description: str = ""
    converses: bool = False
    idempotent: bool = False
    requires_approval: bool = False
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    child: ChildSpec | None = None


Gate = Literal["", "destructive", "external", "first_time"]
"""Why a tool call needs a person's yes."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that a model asks for, judged by the worker's tools.

    Attributes:
        call_id: the model's name for it.
        tool: name of the tool.
        arguments: JSON object.
        denied: why it may not be made; empty where it may.
        gate: why a person is asked first; ``first_time`` only for the first call of the tool in a run.
        idempotent: making it again under the same key after a crash does no harm.
        parameters: JSON Schema of the arguments where a person is asked, who may edit them; else empty.
    """

    call_id: str
    tool: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    denied: str = ""
    gate: Gate = ""
    idempotent: bool = False
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
