"""The view of a loop: the steps of its plan as rows, with their results, and the requests to its supervisor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from asterism.engine.control.children import ChildEnded, StartChild, child_run_id
from asterism.engine.control.run_control import Answered, AskPerson
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect, EffectResult, kind_of
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
from asterism.loop.machine.memory import Activity, LoopMemory
from asterism.loop.machine.model import Finding, Step
from asterism.loop.machine.reflection import is_ok, one_word
from asterism.views.delta import LogLine, brief
from asterism.views.view import BaseView, Settled
from asterism.views.words import child_end_words, count, plain, preview

MAX_PLANNED = 20
"""Steps of a plan that get a line each, at most."""
_DETAIL_WORDS: dict[type[Effect], str] = {
    MakePlan: "plan requested",
    Reflect: "reflection requested",
    Synthesize: "answer requested",
    Critique: "critique requested",
    AskModel: "model asked",
}


class LoopRunView(BaseView):
    """The view of a run of a loop; its parts are steps, whose rows are ``task:<step id>``."""

    @property
    def memory(self) -> LoopMemory:
        """Return the memory of the loop."""
        memory: LoopMemory = self.run.memory
        return memory

    # -- state rows --------------------------------------------------------------------------------

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield kind and key of every possible state row."""
        yield from super().parts()
        yield from (("task", step_id) for step_id in dict.fromkeys((*(step.step_id for step in self.memory.plan), *self.memory.active)))

    def row(self, kind: str, key: str) -> dict[str, Any] | None:
        """Return a state row; None if it does not exist."""
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
        """Return the row of the run, with its progress."""
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
        asks = list(activity.questions())
        status = "waiting" if asks else "running" if activity.under_way else "ready"
        row = step_row(activity.step, order, activity.finding, status=status)
        child = child_run_id(activity.effect_id) if isinstance(self.run.outstanding.get(activity.effect_id), StartChild) else None
        return {
            **row,
            "name": brief(activity.question or activity.step.intent),
            "worker": activity.worker,
            "attempt": activity.attempt,
            "asks": asks,
            "effect": activity.effect_id or None,
            "child": child,
        }

    # -- story rows --------------------------------------------------------------------------------

    def begun(self, effect_id: str, effect: Effect, seq: int) -> tuple[str, dict[str, Any]] | None:
        """Return the story row that an effect begins: an attempt at a step, or a request to the supervisor."""
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
        """Yield ids and fields of the story rows that an entry adds to, including the results of steps."""
        yield from super().story(entry, settled)
        findings = self.memory.findings
        known = self.rows.get("run", {}).get("findings", 0)
        for number, finding in enumerate(findings[known:], start=known + 1):
            yield f"step:{number}", {"at": entry.at, **finding_fields(finding, entry.seq)}

    # -- words -------------------------------------------------------------------------------------

    def part_of(self, effect_id: str, effect: Effect | None) -> str:
        """Return the step that an effect belongs to, from the effect or from memory."""
        asking = (it.step.step_id for it in self.memory.active.values() if effect_id in it.effects())
        subject = effect.subject if isinstance(effect, AskPerson) else {}
        return str(getattr(effect, "step_id", "") or subject.get("step_id", "")) or next(asking, "")

    def lines(self, entry: Entry, settled: Settled | None) -> Iterable[LogLine]:
        """Yield the log lines of an entry: its event, its effects, and the change of state."""
        was, memory = self.rows.get("run", {}).get("state", str(self.run.machine.initial)), self.memory
        said = list(self.event_lines(entry, settled))
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            said += self.effect_lines(effect_id, effect)
        if entry.state != was and memory.code and memory.code != "cancelled":  # the cancel has its own line
            said.append(LogLine("loop finished" if memory.code == "finished" else f"loop failed: {plain(memory.reason)}"))
        if entry.state != was:
            said.append(LogLine(f"{was} → {entry.state}", weight="detail"))
        return said

    def event_lines(self, entry: Entry, settled: Settled | None) -> Iterator[LogLine]:
        """Yield the log lines of the event of an entry."""
        event, step = entry.event, settled.part if settled else ""
        match event:
            case LoopSubmitted(request=request):
                yield LogLine(f"submitted: {plain(request)}", weight="detail")
            case StepOnce():
                yield LogLine(f"one transition requested by {plain(entry.actor)}", weight="detail")
            case Answered(cancelled=True):
                yield LogLine("question cancelled", step, "detail")
            case EffectResult() if settled is not None and settled.abandoned:
                run = f"run {plain(child_run_id(event.effect_id))} " if isinstance(settled.effect, StartChild) else ""
                yield LogLine(f"{run}cancelled while running", step)
            case PlanMade() if self.memory.plan and not event.error:
                yield LogLine(f"planned {count(len(event.steps), 'step')}")
                for planned in self.memory.plan[:MAX_PLANNED]:
                    yield LogLine(f"planned for {plain(planned.worker)}: {plain(planned.intent)}", planned.step_id)
            case EffectResult() if words := _result_words(event):
                yield LogLine(words, step)
                for it in self.memory.again if isinstance(event, Reflected) else ():
                    yield LogLine(f"retry by {plain(it.worker)}, attempt {it.attempt}", it.step.step_id)
            case _:
                yield from super().event_lines(entry, settled)

    def effect_lines(self, effect_id: str, effect: Effect) -> Iterator[LogLine]:
        """Yield the log lines of an issued effect."""
        if words := _effect_words(effect_id, effect):
            yield LogLine(words, self.part_of(effect_id, effect))
        elif words := _DETAIL_WORDS.get(type(effect), ""):
            yield LogLine(words, self.part_of(effect_id, effect), "detail")


def step_row(step: Step, order: int | None, finding: Finding | None, *, status: str) -> dict[str, Any]:
    """Return the row of a step, with its finding if there is one, else with the given status."""
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
    """Return the fields of the story row of a finding."""
    why = {"reason": brief(finding.reason, seq), "feedback": brief(finding.feedback, seq)}
    who = {"part": finding.step_id, "worker": finding.worker, "attempt": finding.attempt}
    return {**who, "status": finding.status, "output": brief(finding.output, seq), **why}


def _result_words(event: EffectResult) -> str:
    """Return the result of an effect in words; empty if it is not worth a line."""
    words = ""
    match event:
        case PlanMade(steps=steps, error=error):
            words = f"planning failed: {plain(error)}" if error else f"planned {count(len(steps), 'step')}"
        case WorkerEnded(later=later) if later is not None:
            words = f"result deferred: {plain(later.key)}"
        case WorkerEnded(finding=finding):
            words = f"found {preview(finding.output)}" if finding.status == "ok" else f"{finding.status}: {plain(finding.reason)}"
        case Reflected(reply=said, strategy=strategy, error=error):
            words = f"reflection failed: {plain(error)}" if error else f"reflection: {strategy or _decision_words(said)}"
        case Synthesized(answer=answer, error=error):
            words = f"synthesis failed: {plain(error)}" if error else f"answer: {preview(answer)}"
        case Critiqued(reply=said, error=error):
            verdict = "ok" if is_ok(said) else plain(said)
            words = f"critique failed: {plain(error)}" if error else f"critique: {verdict}"
        case ModelReplied(text=text, calls=calls, error=error):
            action = f"calls {', '.join(plain(call.tool) for call in calls)}" if calls else f"says {plain(text)}"
            words = f"the model failed: {plain(error)}" if error else f"the model {action}"
        case ToolReturned(result=result, reason=reason):
            words = f"the call was interrupted: {plain(reason)}" if event.interrupted else f"the call returned {preview(result)}"
        case ChildEnded():
            words = child_end_words(event)
        case _:
            pass
    return words


def _decision_words(said: str) -> str:
    """Return the decision that a reply was read as, with the reply where it does not contain that word."""
    decision = one_word(said)
    return decision if decision in said.casefold() else f"{decision}, read from {preview(said)}"


def _effect_words(effect_id: str, effect: Effect) -> str:
    """Return an issued effect in words; empty if it is not worth a line."""
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
        case MakePlan(feedback=feedback) if feedback:
            words = f"new plan requested: {plain(feedback)}"
        case _:
            pass
    return words.rstrip()
