"""What an orchestration loop remembers: plain data. Only its moves write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from asterism.kernel.machine import EffectResult
from asterism.machines.orchestration_loop.model import Finding, Handoff, LoopOptions, State, Step, ToolCall, WorkerProfile
from asterism.machines.run_control import RunMemory

SUPERVISOR = "supervisor"
"""Who hands over."""

About = Literal["", "approval", "interruption", "later", "question", "confirmation"]
"""What a person (or, for ``later``, a program) is asked about."""


class StepInquiry(msgspec.Struct, kw_only=True):
    """An open question.

    Attributes:
        inquiry_id: id of the effect that asked it; empty while nobody is asked.
        about: what the answer will be about.
        prompt: as it was put.
        awaits: key of the result that is waited for, where it is about one that comes later.
        expires_at: seconds since the epoch; 0 for never.
    """

    inquiry_id: str = ""
    about: About = ""
    prompt: str = ""
    awaits: str = ""
    expires_at: float = 0.0


class Call(msgspec.Struct, kw_only=True):
    """A tool call of a conversation.

    Attributes:
        asked: as the model asked for it, or as a person has edited it.
        effect_id: id of its effect while it is under way.
        question: to a person, about it.
        confirmed: a person has said yes to exactly these arguments.
        done: it has a result.
        result: JSON for the model.
    """

    asked: ToolCall
    effect_id: str = ""
    question: StepInquiry = msgspec.field(default_factory=StepInquiry)
    confirmed: bool = False
    done: bool = False
    result: Any = None


class ModelRound(msgspec.Struct, kw_only=True):
    """One reply of a worker's model, and what came of its calls."""

    text: str = ""
    raw: Any = None
    calls: list[Call] = []


class Activity(msgspec.Struct, kw_only=True):
    """A step that was begun and has not been reflected on.

    Attributes:
        step: of the plan; its context as a person may have edited it.
        worker: who does it.
        attempt: which try this is, from 1.
        effect_id: id of its effect while one is under way: a worker's attempt, a model's reply, a child.
        question: to a person, about it.
        approved: a person has said yes to it.
        rounds: the conversation of a worker that is a model.
        finding: what came of it; None until then.
    """

    step: Step
    worker: str
    attempt: int = 1
    effect_id: str = ""
    question: StepInquiry = msgspec.field(default_factory=StepInquiry)
    approved: bool = False
    rounds: list[ModelRound] = []
    finding: Finding | None = None

    @property
    def settled(self) -> bool:
        """True when there is a finding."""
        return self.finding is not None

    @property
    def calls(self) -> list[Call]:
        """Calls of the last reply."""
        return self.rounds[-1].calls if self.rounds else []

    @property
    def under_way(self) -> bool:
        """True while something is being done for it."""
        return bool(self.effect_id) or any(call.effect_id for call in self.calls)

    def tool(self, call: Call) -> str:
        """The tool that a call is of: another worker's may have the same name, and be another one."""
        return f"{self.worker}:{call.asked.tool}"

    def settle(self, finding: Finding) -> None:
        """Give it its finding."""
        self.finding = msgspec.structs.replace(finding, step_id=self.step.step_id, worker=self.worker, attempt=self.attempt)

    def questions(self) -> Iterator[StepInquiry]:
        """Its open questions."""
        return (it for it in (self.question, *(call.question for call in self.calls)) if it.inquiry_id)

    def effects(self) -> Iterator[str]:
        """Ids of what is outstanding for it."""
        yield from filter(None, (self.effect_id, *(call.effect_id for call in self.calls)))
        yield from (question.inquiry_id for question in self.questions())


Stage = Literal["reflect", "synthesize", "critique"]


class LoopMemory(RunMemory, msgspec.Struct, kw_only=True):
    """The memory of one orchestration loop.

    Attributes:
        request, context, definition, working_directory, options, has_critique: as submitted.
        workers: by name.
        started_at: seconds since the epoch.
        plan: the current one.
        position: of the next step in it.
        active: steps that were begun, by step id.
        again: steps to be begun once more, before the plan goes on.
        question: what the user is to be asked next, in words.
        findings: what every step came to, in order.
        latest: how many of them the last observation brought.
        stage: what REFLECTING does next.
        asking: id of the effect by which a supervising function is being asked; empty while none is.
        feedback: why the planner is asked again.
        draft: the answer so far; ``critique``: what is to be better.
        allowance: transitions that may still be made before it pauses by itself; None for any number.
        steps, replans, reflections, revisions, refused, tokens: how many so far; ``refused`` counts calls of a
            supervising function in a row that came to nothing.
        failures: of each step, by id.
        stalled: steps in a row without new output.
        used, trusted: tools of workers that were called in this run; those that need no further yes in it.
        answer: the final one.
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
    position: int = 0
    active: dict[str, Activity] = {}
    again: list[Activity] = []
    question: str = ""
    findings: list[Finding] = []
    latest: int = 0
    stage: Stage = "reflect"
    asking: str = ""
    feedback: str = ""
    draft: Any = None
    critique: str = ""
    allowance: int | None = None
    steps: int = 0
    plans: int = 0
    replans: int = 0
    reflections: int = 0
    revisions: int = 0
    refused: int = 0
    tokens: int = 0
    failures: dict[str, int] = {}
    stalled: int = 0
    used: dict[str, None] = {}
    trusted: dict[str, None] = {}
    answer: Any = None

    @property
    def exhausted(self) -> bool:
        """True when the plan has no step left."""
        return self.position >= len(self.plan) and not self.again and not self.question

    def children(self) -> list[str]:
        """Effects whose child run has not ended."""
        return [it.effect_id for it in self.active.values() if it.effect_id and it.worker in self.workers and self.workers[it.worker].child]

    def is_busy(self, activity: Activity) -> bool:
        """True while something other than people moves an activity on."""
        return activity.under_way and activity.effect_id not in self.blocked_children

    @property
    def home(self) -> State:
        """Where it is while its steps are under way."""
        return State.PARALLEL if len(self.active) > 1 else State.EXECUTING

    def latest_findings(self) -> list[Finding]:
        """What the last observation brought."""
        return self.findings[len(self.findings) - self.latest :]

    def handoff(self, activity: Activity) -> Handoff:
        """What a worker gets for a step, and all it gets."""
        step = activity.step
        artifacts = {used: self.output_of(used) for used in step.uses}
        return Handoff(from_=SUPERVISOR, to=activity.worker, intent=step.intent, context=step.context, artifacts=artifacts)

    def output_of(self, step_id: str) -> Any:
        """What the step of that id has last put out; None where nothing is known of it."""
        return next((finding.output for finding in reversed(self.findings) if finding.step_id == step_id), None)

    def enter(self, state: State) -> State:
        """Make a transition: when stepping, it uses up the allowance."""
        if self.allowance is not None:
            self.allowance = max(0, self.allowance - 1)
            self.paused = self.paused or self.allowance == 0
        return state

    # -- what a driver asks of any memory ----------------------------------------------------------

    def count_usage(self, event: EffectResult) -> None:
        """Count the tokens that models have used."""
        self.tokens += getattr(event, "tokens", 0)

    def wake_at(self) -> float | None:
        """When the next limit or expiry is due, seconds since the epoch; 0, at once, where nothing is under way that would go on."""
        if self.code or not self.started_at:
            return None
        if not (self.paused or self.asking or any(any(activity.effects()) for activity in self.active.values())):
            return 0.0
        expiries = [it.expires_at for activity in self.active.values() for it in activity.questions() if it.expires_at]
        return min([self.started_at + self.options.wall_limit_s, *expiries])

    def result(self) -> dict[str, Any]:
        """The result for the user: summary, answer, steps; on failure code and reason."""
        done = f"{len(self.findings)} step{'s' * (len(self.findings) != 1)}"
        summary = self.answer if isinstance(self.answer, str) else done
        return {"summary": summary, "answer": self.answer, "steps": self.steps, **self.failure_info()}
