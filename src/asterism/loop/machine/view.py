"""The view of a loop for its supervising functions: request, plan, findings, remaining limits."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.loop.machine.memory import LoopMemory
from asterism.loop.machine.model import Finding, Step, WorkerProfile, worded


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """The signals that a run's structure gives, next to its findings.

    Attributes:
        stalled: consecutive observations without new output.
        failures: number of failures by step id.
        steps_left, replans_left, reflections_left: number still allowed.
        tokens_left: tokens still allowed; None for no limit.
        ends_at: time of the wall limit, in seconds since the epoch.
    """

    stalled: int
    failures: dict[str, int]
    steps_left: int
    replans_left: int
    reflections_left: int
    tokens_left: int | None
    ends_at: float


class LoopView(msgspec.Struct, frozen=True, kw_only=True):
    """The argument of plan, reflect, synthesize and critique.

    Attributes:
        key: idempotency key of the call; the same after a crash.
        context: JSON object that belongs to the request.
        plan: the current plan; empty before there is one.
        done: number of its steps that have begun.
        findings: all findings so far, in order.
        latest: findings of the last step, or of the last parallel steps.
        feedback: for plan: reason why it is asked again.
        draft: for critique: the current answer.
        critique: for synthesize: improvements that the draft needs.
    """

    key: str
    request: str
    context: dict[str, Any]
    workers: tuple[WorkerProfile, ...]
    plan: tuple[Step, ...]
    done: int
    findings: tuple[Finding, ...]
    latest: tuple[Finding, ...]
    signals: Signals
    feedback: str = ""
    draft: Any = None
    critique: str = ""

    def output_of(self, step_id: str) -> Any:
        """Return the latest output of a step; None if it has none."""
        return next((finding.output for finding in reversed(self.findings) if finding.step_id == step_id), None)


def view_of(memory: LoopMemory, key: str) -> LoopView:
    """Return the current view of a loop."""
    options = memory.options
    signals = Signals(
        stalled=memory.stalled,
        failures=dict(memory.failures),
        steps_left=options.max_steps - memory.steps,
        replans_left=options.max_replans - memory.replans,
        reflections_left=options.max_reflections - memory.reflections,
        tokens_left=None if options.max_tokens is None else options.max_tokens - memory.tokens,
        ends_at=memory.started_at + options.wall_limit_s,
    )
    return LoopView(
        key=key,
        request=memory.request,
        context=dict(memory.context),
        workers=tuple(memory.workers.values()),
        plan=tuple(memory.plan),
        done=memory.position,
        findings=worded(memory.findings),
        latest=worded(memory.latest_findings()),
        signals=signals,
        feedback=str(memory.feedback),
        draft=memory.draft,
        critique=memory.critique,
    )
