"""The memory of an orchestration loop, as plain data. Only its moves write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from asterism.engine.control.common_rows import cancel_effect
from asterism.engine.control.run_control import RunMemory
from asterism.engine.kernel.guards import union
from asterism.engine.kernel.machine import EffectResult, StepContext
from asterism.engine.kernel.phrase import Phrase, Text, phrase
from asterism.loop.machine.model import Finding, Handoff, LoopOptions, State, Step, ToolCall, WorkerProfile

SUPERVISOR = "supervisor"
"""Sender of every handoff."""
GUARDED = 2
"""Rules from which on guards are asked, and an approval is bound to all that a worker gets."""


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call of a tool was not made; one that was interrupted may have been."""

    status: Literal["denied", "interrupted"] = "denied"
    reason: Text
    feedback: str = ""


class Call(msgspec.Struct, kw_only=True):
    """A tool call of a conversation with a model.

    Attributes:
        asked: the call as the model requested it, or as a person edited it.
        effect_id: id of its effect while it is outstanding.
        inquiry_id: id of the open question to a person about it; else empty.
        confirmed: True if a person approved exactly these arguments.
        result: JSON for the model.
        denial: why it was not made, for the model in place of a result.
    """

    asked: ToolCall
    effect_id: str = ""
    inquiry_id: str = ""
    confirmed: bool = False
    done: bool = False
    result: Any = None
    denial: Denial | None = None


class ModelRound(msgspec.Struct, kw_only=True):
    """One reply of a worker's model, with its tool calls."""

    text: str = ""
    raw: Any = None
    calls: list[Call] = []


class Activity(msgspec.Struct, kw_only=True):
    """A step that was begun and whose finding is not yet recorded.

    Attributes:
        step: the step, with the intent and context that a person may have edited.
        effect_id: id of its outstanding effect (a worker's attempt, a model's reply, a child); else
            empty.
        inquiry_id: id of the open question about it to a person or, for ``later``, to a program; else
            empty.
        approved: digest of what a person has approved; empty without an approval.
        rounds: the conversation with a worker that is a model.
        question: what the user is asked, in a step that is a question.
        finding: its result; None until then.
    """

    step: Step
    worker: str
    attempt: int = 1
    effect_id: str = ""
    inquiry_id: str = ""
    approved: str = ""
    rounds: list[ModelRound] = []
    question: Phrase | None = None
    finding: Finding | None = None

    @property
    def settled(self) -> bool:
        """Return True if there is a finding."""
        return self.finding is not None

    @property
    def calls(self) -> list[Call]:
        """Return the tool calls of the model's last reply."""
        return self.rounds[-1].calls if self.rounds else []

    @property
    def under_way(self) -> bool:
        """Return True while an effect other than a question is outstanding for it."""
        return bool(self.effect_id) or any(call.effect_id for call in self.calls)

    def tool(self, call: Call) -> str:
        """Return the name of a call's tool with its worker.

        Other workers may have tools of the same name.
        """
        return f"{self.worker}:{call.asked.tool}"

    def settle(self, finding: Finding) -> None:
        """Record the finding, with step, worker and attempt."""
        self.finding = msgspec.structs.replace(finding, step_id=self.step.step_id, worker=self.worker, attempt=self.attempt)

    def asking(self, inquiry_id: str) -> Activity | Call:
        """Return what waits for the answer to an open question about it: itself, or one of its calls."""
        return next((call for call in self.calls if call.inquiry_id == inquiry_id), self)

    def questions(self) -> Iterator[str]:
        """Yield the ids of its open questions."""
        return filter(None, (self.inquiry_id, *(call.inquiry_id for call in self.calls)))

    def effects(self) -> Iterator[str]:
        """Yield the ids of its outstanding effects, including questions."""
        yield from filter(None, (self.effect_id, *(call.effect_id for call in self.calls)))
        yield from self.questions()


Stage = Literal["reflect", "synthesize", "critique"]


class LoopMemory(RunMemory, msgspec.Struct, kw_only=True):
    """The memory of one orchestration loop.

    Attributes:
        request, context, definition, working_directory, options, has_critique: as submitted.
        started_at: seconds since the epoch.
        concerned_by: by step id, the guards of a plan that stood when the step was written or last changed.
        position: index in ``plan`` of the next step to begin.
        active: begun steps by id.
        again: steps to retry before the plan continues.
        question: question to ask the user next; None for none.
        findings: findings of all steps, in order.
        latest: number of findings added by the last observation.
        stage: next action in REFLECTING.
        open_call: id of the outstanding call of a supervising function; empty for none.
        feedback: reason why the planner is asked again.
        draft, critique: the answer so far, and the improvements it needs.
        allowance: transitions left before the run pauses itself; None for no limit.
        steps, plans, replans, reflections, revisions, tokens: number so far.
        failed_calls: number of consecutive failed calls of a supervising function.
        failures: number of failures by step id.
        stalled: consecutive observations without new output.
        used: tools that were called in this run.
        trusted: tools that need no further approval in this run.
    """

    request: str = ""
    context: dict[str, Any] = {}
    definition: str = ""
    working_directory: str = ""
    options: LoopOptions = LoopOptions()
    has_critique: bool = False
    workers: dict[str, WorkerProfile] = {}
    started_at: float = 0.0
    plan: list[Step] = []
    concerned_by: dict[str, tuple[str, ...]] = {}
    position: int = 0
    active: dict[str, Activity] = {}
    again: list[Activity] = []
    question: Phrase | None = None
    findings: list[Finding] = []
    latest: int = 0
    stage: Stage = "reflect"
    open_call: str = ""
    feedback: Text = ""
    draft: Any = None
    critique: str = ""
    allowance: int | None = None
    steps: int = 0
    plans: int = 0
    replans: int = 0
    reflections: int = 0
    revisions: int = 0
    failed_calls: int = 0
    tokens: int = 0
    failures: dict[str, int] = {}
    stalled: int = 0
    used: dict[str, None] = {}
    trusted: dict[str, None] = {}
    answer: Any = None

    @property
    def exhausted(self) -> bool:
        """Return True if no step is left to begin."""
        return self.position >= len(self.plan) and not self.again and not self.question

    def children(self) -> list[str]:
        """Return the ids of the effects whose child run has not ended."""
        return [it.effect_id for it in self.active.values() if it.effect_id and it.worker in self.workers and self.workers[it.worker].child]

    def is_busy(self, activity: Activity) -> bool:
        """Return True if an activity can continue without a person."""
        return activity.under_way and activity.effect_id not in self.blocked_children

    @property
    def home(self) -> State:
        """Return the state of a loop whose steps are being carried out."""
        return State.PARALLEL if len(self.active) > 1 else State.EXECUTING

    def latest_findings(self) -> list[Finding]:
        """Return the findings that the last observation added."""
        return self.findings[len(self.findings) - self.latest :]

    def handoff(self, activity: Activity) -> Handoff:
        """Return the handoff to a worker for a step: everything the worker sees."""
        step = activity.step
        artifacts = {used: self.output_of(used) for used in step.uses}
        return Handoff(from_=SUPERVISOR, to=activity.worker, intent=step.intent, context=step.context, artifacts=artifacts)

    def output_of(self, step_id: str) -> Any:
        """Return the latest output of a step; None if it has none."""
        return next((finding.output for finding in reversed(self.findings) if finding.step_id == step_id), None)

    def enter(self, state: State) -> State:
        """Return the state of a transition, which uses up the allowance of ``StepOnce``."""
        if self.allowance is not None:
            self.allowance = max(0, self.allowance - 1)
            self.paused = self.paused or self.allowance == 0
        return state

    def fail(self, why: Phrase, context: StepContext) -> State:
        """End the run with the code of the reason, without its prefix; return FAILED."""
        return self.give_up(why.code.rpartition(".")[2], why, context)

    def give_up(self, code: str, reason: Text, context: StepContext) -> State:
        """End the run and cancel everything outstanding; return FAILED."""
        self.code, self.why = code, reason
        if self.open_call:
            cancel_effect(self.open_call, context, self.why)
            self.open_call = ""
        for activity in self.active.values():
            for effect in activity.effects():
                cancel_effect(effect, context, self.why)
        context.touch("task", *self.active)
        self.active.clear()
        return State.FAILED

    def past_bound(self, context: StepContext) -> Phrase | None:
        """Return the reason of an exceeded time or token limit; None within the limits."""
        options = self.options
        if context.at >= self.started_at + options.wall_limit_s:
            return phrase("loop.wall_limit", limit_s=options.wall_limit_s)
        if options.max_tokens is not None and self.tokens > options.max_tokens:
            return phrase("loop.max_tokens", tokens=self.tokens, most=options.max_tokens)
        return None

    # -- overrides of RunMemory --------------------------------------------------------------------

    def note_concerned(self, names: tuple[str, ...]) -> None:
        """Note that guards of a plan concern the steps that are there."""
        self.concerned_by = {step_id: union(before, names) for step_id, before in self.concerned_by.items()}

    def inquiry_limit_s(self, kind: str) -> float | None:
        """Return the seconds after which every question expires; None for never."""
        return self.options.inquiry_timeout_s or None

    def count_usage(self, event: EffectResult) -> None:
        """Add the tokens that a model used."""
        self.tokens += getattr(event, "tokens", 0)

    def wake_at(self) -> float | None:
        """Return the epoch seconds of the wall limit; 0 if nothing is outstanding."""
        if self.code or not self.started_at:
            return None
        if not (self.paused or self.open_call or any(any(activity.effects()) for activity in self.active.values())):
            return 0.0
        return self.started_at + self.options.wall_limit_s

    def result(self) -> dict[str, Any]:
        """Return the result for the user: summary, answer, steps; on failure code and reason."""
        done = f"{len(self.findings)} step{'s' * (len(self.findings) != 1)}"
        summary = self.answer if isinstance(self.answer, str) else done
        return {"summary": summary, "answer": self.answer, "steps": self.steps, **self.failure_info()}
