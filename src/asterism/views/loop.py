"""The view of a loop: the steps of its plan as rows, what each step came to, and what its supervisor was asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from asterism.kernel.journal import Entry
from asterism.kernel.machine import Effect, EffectResult, kind_of
from asterism.machines.children import ChildEnded, StartChild, child_run_id
from asterism.machines.orchestration_loop.effects import AskModel, CallTool, Critique, MakePlan, Reflect, RunWorker, Synthesize
from asterism.machines.orchestration_loop.events import (
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
from asterism.machines.orchestration_loop.memory import Activity, LoopMemory
from asterism.machines.orchestration_loop.model import Finding, Step
from asterism.machines.orchestration_loop.reflection import is_ok, one_word
from asterism.machines.run_control import Answered, AskPerson, Cancel, Forked, OwnershipAcquired, Pause, TransitionFailed, Unpause
from asterism.views.delta import LogLine, brief
from asterism.views.view import BaseView, Settled
from asterism.views.words import answer_words, control_words, count, plain, preview

MAX_PLANNED = 20
"""Steps of a plan that are told one by one."""
_QUIET_WORDS: dict[type[Effect], str] = {
    MakePlan: "a plan is asked for",
    Reflect: "a reflection is asked for",
    Synthesize: "an answer is asked for",
    Critique: "a critique is asked for",
    AskModel: "the model is asked",
}


class LoopRunView(BaseView):
    """The view of a run of a loop; its parts are steps, whose rows are ``task:<step id>``."""

    @property
    def memory(self) -> LoopMemory:
        """The loop's memory."""
        memory: LoopMemory = self.run.memory
        return memory

    # -- state rows --------------------------------------------------------------------------------

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield kind and key of every state row there may be."""
        yield from super().parts()
        yield from (("task", step_id) for step_id in dict.fromkeys((*(step.step_id for step in self.memory.plan), *self.memory.active)))

    def row(self, kind: str, key: str) -> dict[str, Any] | None:
        """Return a state row; None where there is none (any more)."""
        if kind != "task":
            return super().row(kind, key)
        memory = self.memory
        order = next((number for number, step in enumerate(memory.plan) if step.step_id == key), None)
        again = next((activity for activity in memory.again if activity.step.step_id == key), None)
        activity = memory.active.get(key) or again
        if activity is not None:
            return self._activity_row(activity, order)
        if order is None:
            return None
        found = None
        if order < memory.position:
            found = next((finding for finding in reversed(memory.findings) if finding.step_id == key), None)
        return step_row(memory.plan[order], order, found, status="cancelled" if order < memory.position else "planned")

    def run_row(self) -> dict[str, Any]:
        """Return the row of the run, with how far it has come."""
        memory = self.memory
        return {
            **super().run_row(),
            "request": brief(memory.request, 1),
            "started_at": memory.started_at or None,
            "ends_at": memory.started_at + memory.options.wall_limit_s,
            "stage": memory.stage,
            "position": memory.position,
            "steps": memory.steps,
            "findings": len(memory.findings),
            "replans": memory.replans,
            "reflections": memory.reflections,
            "tokens": memory.tokens,
            "allowance": memory.allowance,
            "question": brief(memory.question) or None,
            "answer": brief(memory.answer),
        }

    def _activity_row(self, activity: Activity, order: int | None) -> dict[str, Any]:
        asks = [question.inquiry_id for question in activity.questions()]
        status = "waiting" if asks else "running" if activity.under_way else "ready"
        row = step_row(activity.step, order, activity.finding, status=status)
        child = child_run_id(activity.effect_id) if isinstance(self.run.outstanding.get(activity.effect_id), StartChild) else None
        return {
            **row,
            "worker": activity.worker,
            "attempt": activity.attempt,
            "asks": asks,
            "effect": activity.effect_id or None,
            "child": child,
        }

    # -- story rows --------------------------------------------------------------------------------

    def begun(self, effect_id: str, effect: Effect, seq: int) -> tuple[str, dict[str, Any]] | None:
        """Return the story row that an effect begins: an attempt at a step, or a question to the supervisor."""
        match effect:
            case MakePlan() | Reflect() | Synthesize() | Critique():
                return "planning", {"kind": kind_of(effect)}
            case RunWorker() | AskModel():
                given = brief(effect.handoff.intent, seq)
                return "attempt", {"kind": kind_of(effect), "part": effect.step_id, "worker": effect.worker, "given": given}
            case CallTool():
                called = {"worker": effect.worker, "tool": effect.tool, "given": brief(effect.arguments, seq)}
                return "attempt", {"kind": kind_of(effect), "part": effect.step_id, **called}
            case _:
                return super().begun(effect_id, effect, seq)

    def story(self, entry: Entry, settled: Settled | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield ids and fields of the story rows that an entry adds to: what steps came to, too."""
        yield from super().story(entry, settled)
        findings = self.memory.findings
        known = self.rows.get("run", {}).get("findings", 0)
        for number, finding in enumerate(findings[known:], start=known + 1):
            yield f"step:{number}", {"at": entry.at, **finding_fields(finding, entry.seq)}

    # -- words -------------------------------------------------------------------------------------

    def part_of(self, effect_id: str, effect: Effect | None) -> str:
        """Return the step that an effect is for, as far as the effect or memory say."""
        asking = (it.step.step_id for it in self.memory.active.values() if effect_id in it.effects())
        subject = effect.subject if isinstance(effect, AskPerson) else {}
        return str(getattr(effect, "step_id", "") or subject.get("step_id", "")) or next(asking, "")

    def lines(self, entry: Entry, settled: Settled | None) -> Iterable[LogLine]:
        """Yield what an entry says: its event, its effects, and the change of state."""
        was, memory = self.rows.get("run", {}).get("state", str(self.run.machine.initial)), self.memory
        said = list(self.event_lines(entry, settled))
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            said += self.effect_lines(effect_id, effect)
        if entry.state != was and memory.code and memory.code != "cancelled":  # that was said already
            said.append(LogLine("the loop is complete" if memory.code == "finished" else f"the loop fails: {plain(memory.reason)}"))
        if entry.state != was:
            said.append(LogLine(f"{was} → {entry.state}", weight="detail"))
        return said

    def event_lines(self, entry: Entry, settled: Settled | None) -> Iterator[LogLine]:
        """Yield what the event of an entry says."""
        event, step = entry.event, settled.part if settled else ""
        match event:
            case LoopSubmitted(request=request):
                yield LogLine(f"submitted: {plain(request)}", weight="detail")
            case OwnershipAcquired(epoch=epoch, owner=owner):
                again = "taken" if epoch == 1 else "taken up again"
                yield LogLine(f"{again} by {plain(owner)}", weight="detail" if epoch == 1 else "event")
            case Pause() | Unpause() | Cancel() | Forked() | TransitionFailed():
                yield LogLine(control_words(entry))
            case StepOnce():
                yield LogLine(f"one transition, says {plain(entry.actor)}", weight="detail")
            case Answered(cancelled=True):
                yield LogLine("the question is withdrawn", step, "detail")
            case Answered():
                yield LogLine(answer_words(entry, event), step)
            case EffectResult() if settled is not None and settled.abandoned:
                what = f"run {plain(child_run_id(event.effect_id))}" if isinstance(settled.effect, StartChild) else "it"
                yield LogLine(f"{what} was under way, and is called off", step)
            case PlanMade() if self.memory.plan and not event.error:
                yield LogLine(f"planned {count(len(event.steps), 'step')}")
                for planned in self.memory.plan[:MAX_PLANNED]:
                    yield LogLine(f"planned for {plain(planned.worker)}: {plain(planned.intent)}", planned.step_id)
            case EffectResult() if words := _outcome_words(event):
                yield LogLine(words, step)
                for it in self.memory.again if isinstance(event, Reflected) else ():
                    yield LogLine(f"is to be tried again by {plain(it.worker)}, attempt {it.attempt}", it.step.step_id)
            case _:
                pass

    def effect_lines(self, effect_id: str, effect: Effect) -> Iterator[LogLine]:
        """Yield what an effect says that was asked for."""
        if words := _effect_words(effect_id, effect):
            yield LogLine(words, self.part_of(effect_id, effect))
        elif words := _QUIET_WORDS.get(type(effect), ""):
            yield LogLine(words, self.part_of(effect_id, effect), "detail")


def step_row(step: Step, order: int | None, finding: Finding | None, *, status: str) -> dict[str, Any]:
    """Return the row of a step: what it came to, or else the status that is given."""
    return {
        "name": brief(step.intent),
        "order": order,
        "worker": finding.worker if finding else step.worker,
        "attempt": finding.attempt if finding else 1,
        "status": finding.status if finding else status,
        "result": brief(finding.output) if finding else None,
        "reason": brief(finding.reason) or None if finding else None,
        "feedback": brief(finding.feedback) or None if finding else None,
        "asks": [],
        "effect": None,
        "child": None,
    }


def finding_fields(finding: Finding, seq: int) -> dict[str, Any]:
    """Return the fields of the story row of what a step came to."""
    told = {"reason": brief(finding.reason, seq), "feedback": brief(finding.feedback, seq)}
    who = {"part": finding.step_id, "worker": finding.worker, "attempt": finding.attempt}
    return {**who, "status": finding.status, "output": brief(finding.output, seq), **told}


def _outcome_words(event: EffectResult) -> str:
    """Return what has come of an effect; empty where it is not worth a line."""
    words = ""
    match event:
        case PlanMade(steps=steps, error=error):
            words = f"no plan can be had: {plain(error)}" if error else f"planned {count(len(steps), 'step')}"
        case WorkerEnded(later=later) if later is not None:
            words = f"its result comes later: {plain(later.key)}"
        case WorkerEnded(finding=finding):
            words = f"found {preview(finding.output)}" if finding.status == "ok" else f"{finding.status}: {plain(finding.reason)}"
        case Reflected(reply=said, strategy=strategy, error=error):
            words = f"no reflection can be had: {plain(error)}" if error else f"the reflection says {strategy or _decision_words(said)}"
        case Synthesized(answer=answer, error=error):
            words = f"no answer can be had: {plain(error)}" if error else f"answer: {preview(answer)}"
        case Critiqued(reply=said, error=error):
            told = "is content" if is_ok(said) else f"wants it better: {plain(said)}"
            words = f"no critique can be had: {plain(error)}" if error else f"the critique {told}"
        case ModelReplied(text=text, calls=calls, error=error):
            wants = f"wants to call {', '.join(plain(call.tool) for call in calls)}" if calls else f"says {plain(text)}"
            words = f"no reply can be had: {plain(error)}" if error else f"the model {wants}"
        case ToolReturned(result=result):
            words = f"the call returned {preview(result)}"
        case ChildEnded(outcome=outcome, reason=reason):
            words = f"its run has {outcome}" + (f": {plain(reason)}" if reason else "")
        case _:
            pass
    return words


def _decision_words(said: str) -> str:
    """Return the decision; with what was said, where that is none of the words and was taken for one."""
    decision = one_word(said)
    return decision if decision in said.casefold() else f"{decision}, since it said {preview(said)}"


def _effect_words(effect_id: str, effect: Effect) -> str:
    """Return what has been begun with an effect; empty where it is not worth a line."""
    words = ""
    match effect:
        case RunWorker(worker=worker, attempt=attempt, handoff=handoff):
            again = f", attempt {attempt}" if attempt > 1 else ""
            words = f"handed to {plain(worker)}{again}: {plain(handoff.intent)}"
        case AskModel(worker=worker, round=number, handoff=handoff) if number == 1:
            words = f"handed to {plain(worker)}: {plain(handoff.intent)}"
        case CallTool(tool=tool, arguments=arguments):
            words = f"calls {plain(tool)} {preview(arguments)}"
        case StartChild():
            words = f"started as run {plain(child_run_id(effect_id))}"
        case AskPerson(prompt=prompt, subject=subject):
            words = f"waits for a person: {plain(prompt)} {preview(subject.get('arguments', {}))}"
        case MakePlan(feedback=told) if told:
            words = f"another plan is asked for: {plain(told)}"
        case _:
            pass
    return words.rstrip()
