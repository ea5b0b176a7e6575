"""What a supervising function sees: the request, the plan, what was found, and how far it still may go."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.machines.orchestration_loop.memory import LoopMemory
from asterism.machines.orchestration_loop.model import Finding, Step, WorkerProfile


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """What the structure of the run says, beside what the findings say.

    Attributes:
        stalled: steps in a row without new output.
        failures: times a step has failed, by step id.
        steps_left, replans_left, reflections_left: how many are still allowed.
        tokens_left: the same for tokens of models; None where there is no limit.
        ends_at: when the wall limit is, in seconds since the epoch.
    """

    stalled: int
    failures: dict[str, int]
    steps_left: int
    replans_left: int
    reflections_left: int
    tokens_left: int | None
    ends_at: float


class LoopView(msgspec.Struct, frozen=True, kw_only=True):
    """What plan, reflect, synthesize and critique are called with.

    Attributes:
        key: idempotency key of the call; the same again after a crash.
        request: the user's words.
        context: what was given with them.
        workers: who there is.
        plan: the current one; empty before there is one.
        done: how many steps of it have been begun.
        findings: all so far, in order.
        latest: those of the last step, or of the last steps that ran in parallel.
        signals: see there.
        told: to plan: why it is asked again.
        draft: to critique: the answer as it stands.
        critique: to synthesize: what is to be better than in the draft.
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
        """What the step of that id has last put out; None where nothing is known of it."""
        return next((finding.output for finding in reversed(self.findings) if finding.step_id == step_id), None)


def view_of(memory: LoopMemory, key: str) -> LoopView:
    """The view of a loop as it is now."""
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
        findings=tuple(memory.findings),
        latest=tuple(memory.latest_findings()),
        signals=signals,
        feedback=memory.feedback,
        draft=memory.draft,
        critique=memory.critique,
    )
