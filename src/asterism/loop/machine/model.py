"""The data of an orchestration loop: states, options, steps, findings, workers and tool calls."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from asterism.engine.kernel.phrase import Text
from asterism.engine.kernel.profile import ChildSpec


class State(StrEnum):
    """States of an orchestration loop; the last three extend the seven of a sequential loop."""

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
    """The one-word reply of a reflection."""

    CONTINUE = "continue"
    REPLAN = "replan"
    DONE = "done"
    FAIL = "fail"


class Strategy(StrEnum):
    """The strategies after a failed step or a stall, chosen in REFLECTING."""

    RETRY = "retry"
    RETRY_ELSEWHERE = "retry_elsewhere"
    DECOMPOSE = "decompose"
    ASK_USER = "ask_user"
    GIVE_UP = "give_up"


Count = Annotated[int, msgspec.Meta(ge=1)]


class LoopOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The options and limits of a run.

    A run that would need more than a limit allows ends in FAILED, and its reason names the limit.
    For ``max_parallel``, ``max_revisions``, ``max_rounds`` and ``inquiry_timeout_s``, the text below
    says what happens instead.

    Attributes:
        max_steps: steps begun, including repeated ones.
        max_parallel: steps carried out at the same time; further ones wait.
        max_attempts: attempts of one step.
        max_replans: plans made after the first.
        max_reflections: reflections in all.
        max_revisions: revisions of the answer after a critique; the last one is accepted unseen.
        max_calls: consecutive failed calls of one supervising function (plan, reflect, synthesize,
            critique).
        max_rounds: replies of a model within one step; beyond them only the step fails.
        max_tokens: tokens of all models together; None for no limit.
        wall_limit_s: seconds from the start.
        inquiry_timeout_s: seconds that a question to a person stays open; then it counts as
            rejected. None for no limit but the wall limit.
        recovery: strategies when a step fails and the reflection says continue: the first one after
            its first failure, and so on.
        stall_after: number of consecutive observations without new output that count as a stall.
        when_stalled: strategy for a stall when the reflection says continue; None for none.
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


class Step(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One step of a plan.

    Attributes:
        step_id: id, unique in the plan; assigned if empty.
        intent: the task, in words.
        context: further input for the worker (JSON object).
        uses: ids of earlier steps whose outputs the worker receives as artifacts.
        group: consecutive steps of one group run in parallel; empty for a step by itself.
        requires_approval: True if a person must approve the step first.
        alternatives: workers to use if the first one fails.
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
    """The input of a worker, and everything it sees.

    Attributes:
        from_: name of the sender (``from`` in JSON).
        to: name of the worker.
        intent: the task, in words.
        context: JSON object from the plan.
        artifacts: outputs of the steps that this one uses, by step id.
        key: idempotency key; the same after a crash.
    """

    from_: str = msgspec.field(name="from")
    to: str
    intent: str
    context: dict[str, Any] = msgspec.field(default_factory=dict)
    artifacts: dict[str, Any] = msgspec.field(default_factory=dict)
    key: str = ""


FindingStatus = Literal["ok", "failed", "timeout", "denied"]


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a step.

    Attributes:
        output: JSON value from the worker.
        status: ``denied`` if a person rejected the step, which is not a failure.
        reason: reason for any status but ``ok``.
        feedback: words of the person who rejected the step.
        step_id, worker, attempt: filled in by the loop.
    """

    output: Any = None
    status: FindingStatus = "ok"
    reason: Text = ""
    feedback: str = ""
    step_id: str = ""
    worker: str = ""
    attempt: int = 1

    @property
    def failed(self) -> bool:
        """Return True if the step failed or timed out, but was not denied."""
        return self.status in ("failed", "timeout")


def worded(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with their reasons in words."""
    return tuple([it if isinstance(it.reason, str) else msgspec.structs.replace(it, reason=str(it.reason)) for it in findings])


class Later(msgspec.Struct, frozen=True, omit_defaults=True):
    """The return value of a worker whose result comes later, from outside.

    Attributes:
        key: key under which the result is delivered.
        prompt: description of the expected result, for people.
    """

    key: str
    prompt: str = ""


class WorkerProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A loop's description of a worker.

    Attributes:
        name: name, unique in its loop.
        converses: True for a model with tools, whose replies and calls are journaled one by one.
        idempotent: True if the worker can safely repeat an attempt under the same key after a
            crash.
        requires_approval: True if a person must approve each of its steps.
        timeout_s: time limit of one attempt; None for none.
        child: the child run that does its work, if any.
    """

    name: str
    description: str = ""
    converses: bool = False
    idempotent: bool = False
    requires_approval: bool = False
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    child: ChildSpec | None = None


Gate = Literal["", "destructive", "external", "first_time"]
"""Reason why a tool call needs approval by a person."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that a model requested, checked against the worker's tools.

    Attributes:
        call_id: the model's id of the call.
        denied: reason why the call is not allowed; empty if it is.
        gate: reason for approval by a person; ``first_time`` applies only to the first call of the
            tool by its worker in a run.
        idempotent: True if the call can safely be repeated under the same key after a crash.
        parameters: JSON Schema of the arguments, for a person who may edit them; else empty.
    """

    call_id: str
    tool: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    denied: str = ""
    gate: Gate = ""
    idempotent: bool = False
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
