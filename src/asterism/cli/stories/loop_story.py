"""The story of a loop: its steps and what came of them, told as ``Story`` tells a constellation's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from rich.text import Text

from asterism.cli.stories.story import Happening, Story, last_lines
from asterism.cli.words import time_of_day
from asterism.kernel.journal import Entry
from asterism.kernel.machine import Effect, Outcome, kind_of
from asterism.machines.children import ChildEnded, StartChild, child_of
from asterism.machines.control import Answered, Ask, Broke, Cancel, Claimed, Forked, Pause, Unpause
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
from asterism.machines.orchestration_loop.memory import LoopMemory
from asterism.machines.orchestration_loop.model import Finding
from asterism.machines.orchestration_loop.reflecting import is_ok, one_word
from asterism.views.words import answer_words, control_words, count, plain, preview

_LOOKS = {"ok": ("●", "green"), "failed": ("✗", "bold red"), "timeout": ("✗", "bold red"), "denied": ("■", "yellow")}
_QUIET_WORDS: dict[type[Effect], str] = {
    MakePlan: "a plan is asked for",
    Reflect: "a reflection is asked for",
    Synthesize: "an answer is asked for",
    Critique: "a critique is asked for",
    AskModel: "the model is asked",
}
MAX_PLANNED = 20
"""Steps of a plan that are told one by one."""


class LoopStory(Story):
    """A run of a loop as far as it has been read; it has steps where a constellation has tasks."""

    parts = "step"

    @property
    def memory(self) -> LoopMemory:
        """What the loop remembers."""
        memory: LoopMemory = self.run.memory
        return memory

    # -- words -------------------------------------------------------------------------------------

    def _told(self, entry: Entry) -> list[Happening]:
        was = self.run.state
        self.run.replay([entry])
        told = [*self._event(entry), *self._effects(entry)]
        memory = self.memory
        if self.run.state != was and memory.code and memory.code != "cancelled":  # that was said already
            ends = "the loop is complete" if memory.code == "finished" else f"the loop fails: {plain(memory.reason)}"
            told.append(Happening(entry, ends))
        if self.run.state != was:
            told.append(Happening(entry, f"{was} → {self.run.state}", weight="detail"))
        return told or [Happening(entry, kind_of(entry.event), weight="detail")]

    def _event(self, entry: Entry) -> Iterator[Happening]:
        event = entry.event
        step = self.part_of(event.effect) if isinstance(event, Outcome) else ""
        match event:
            case LoopSubmitted(request=request):
                yield Happening(entry, f"submitted: {plain(request)}", weight="detail")
            case Claimed(epoch=epoch, owner=owner):
                again = "taken" if epoch == 1 else "taken up again"
                yield Happening(entry, f"{again} by {plain(owner)}", weight="detail" if epoch == 1 else "event")
            case Pause() | Unpause() | Cancel() | Forked() | Broke():
                yield Happening(entry, control_words(entry))
            case StepOnce():
                yield Happening(entry, f"one transition, says {plain(entry.actor)}", weight="detail")
            case Answered(withdrawn=True):
                yield Happening(entry, "the question is withdrawn", step, weight="detail")
            case Answered():
                yield Happening(entry, answer_words(entry, event), step)
            case PlanMade() if self.memory.plan and not event.error:
                yield Happening(entry, f"planned {count(len(event.steps), 'step')}")
                for planned in self.memory.plan[:MAX_PLANNED]:
                    yield Happening(entry, f"planned for {plain(planned.worker)}: {plain(planned.intent)}", planned.step_id)
            case Outcome() if event.effect in self.copied and self.forked:
                yield Happening(entry, f"it was under way in {plain(self.forked.origin)}, and is called off here", step, weight="detail")
            case Outcome() if words := _outcome_words(event):
                yield Happening(entry, words, step)
                for it in self.memory.again if isinstance(event, Reflected) else ():
                    yield Happening(entry, f"is to be tried again by {plain(it.worker)}, attempt {it.attempt}", it.step.step_id)
            case _:
                pass

    def _part(self, effect_id: str, effect: Effect) -> str:
        asking = (it.step.step_id for it in self.memory.active.values() if effect_id in it.effects())
        return str(getattr(effect, "step_id", "")) or next(asking, "")

    def _effect(self, entry: Entry, effect_id: str, effect: Effect) -> Iterator[Happening]:
        if words := _effect_words(effect_id, effect):
            yield Happening(entry, words, self.part_of(effect_id))
        elif words := _QUIET_WORDS.get(type(effect), ""):
            yield Happening(entry, words, self.part_of(effect_id), weight="detail")

    # -- how it stands -----------------------------------------------------------------------------

    def picture(self, now: float, limit: int, frame: int = 0) -> list[Text]:  # noqa: ARG002 - it does not move
        """Each step with its worker, how it stands, and what came of it."""
        memory = self.memory
        settled = [activity.finding for activity in memory.active.values() if activity.finding is not None]
        lines = [_found_line(finding) for finding in (*memory.findings, *settled)]
        for activity in memory.active.values():
            if activity.settled:
                continue
            asks = any(activity.questions())
            line = Text("? " if asks else "◐ ", "magenta" if asks else "cyan").append(f"{plain(activity.step.step_id)}  ", "dim")
            line.append(f"{plain(activity.worker)}  ", "bold").append(plain(activity.step.intent, 80))
            lines.append(line.append("  waits for a person" if asks else "", "magenta"))
        left = memory.plan[memory.position :] if not memory.code else []
        lines += [Text(f"○ {plain(step.step_id)}  {plain(step.worker)}  {plain(step.intent, 80)}", "dim") for step in left]
        return last_lines(lines, limit)

    def counted(self) -> str:
        """How many steps have come to what."""
        found = self.memory.findings
        kinds = {status: sum(1 for it in found if it.status == status) for status in ("ok", "failed", "timeout", "denied")}
        told = ", ".join(f"{number} {status}" for status, number in kinds.items() if number)
        return f"{count(len(found), 'step')}: {told or 'none yet'}"

    def standing(self) -> dict[str, str]:
        """What each step has come to, in words, by its id."""
        memory = self.memory
        standing = {step.step_id: "not begun" for step in memory.plan}
        for step_id, activity in memory.active.items():
            standing[step_id] = "waits for a person" if any(activity.questions()) else "under way"
        settled = [activity.finding for activity in memory.active.values() if activity.finding is not None]
        for it in (*memory.findings, *settled):
            because = ": ".join(filter(None, (plain(it.reason), plain(it.feedback)))) or preview(it.output)
            standing[it.step_id] = f"{it.status} ({because})"
        return standing

    def outcome(self) -> dict[str, Any]:
        """What it has come to, for programs."""
        memory = self.memory
        return {
            "answer": memory.answer,
            "plan": msgspec.to_builtins(memory.plan),
            "findings": msgspec.to_builtins(memory.findings),
            "steps": memory.steps,
            "replans": memory.replans,
            "reflections": memory.reflections,
            "tokens": memory.tokens,
        }

    def sections(self, happenings: list[Happening], now: float) -> list[Text]:
        """What ``show`` tells of it: who did what and why, and what it took."""
        told: dict[str, list[Happening]] = {}
        for happening in happenings:
            if happening.weight == "event":
                told.setdefault(happening.task_id, []).append(happening)
        memory = self.memory
        lines = [Text("steps", "bold")]
        for step_id, its in told.items():
            lines.append(Text(f"  {plain(step_id) or 'the loop'}", "bold" if step_id else "dim"))
            lines += [_told_line(it) for it in its]
        numbers = [count(memory.steps, "step"), count(memory.replans, "replan"), count(memory.reflections, "reflection")]
        numbers += [f"{memory.tokens} tokens"] if memory.tokens else []
        lines += self._metrics(", ".join(numbers), now)
        return lines


def _told_line(told: Happening) -> Text:
    line = Text(f"      {time_of_day(told.entry.at)}  ", "dim").append(told.text)
    return line.append(f"  ({plain(told.entry.actor)})", "dim")


def _found_line(finding: Finding) -> Text:
    mark, style = _LOOKS[finding.status]
    line = Text(f"{mark} ", style).append(f"{plain(finding.step_id)}  ", "dim").append(f"{plain(finding.worker)}  ", "bold")
    why = ": ".join(filter(None, (finding.status, plain(finding.reason), plain(finding.feedback))))
    return line.append(preview(finding.output) if finding.status == "ok" else why)


def _outcome_words(event: Outcome) -> str:
    """What has come of an effect; empty where it is not worth a line."""
    words = ""
    match event:
        case PlanMade(steps=steps, error=error):
            words = f"no plan can be had: {plain(error)}" if error else f"planned {count(len(steps), 'step')}"
        case WorkerEnded(later=later) if later is not None:
            words = f"its result comes later: {plain(later.key)}"
        case WorkerEnded(finding=finding):
            words = f"found {preview(finding.output)}" if finding.status == "ok" else f"{finding.status}: {plain(finding.reason)}"
        case Reflected(said=said, strategy=strategy, error=error):
            words = f"no reflection can be had: {plain(error)}" if error else f"the reflection says {strategy or _decision_words(said)}"
        case Synthesized(answer=answer, error=error):
            words = f"no answer can be had: {plain(error)}" if error else f"answer: {preview(answer)}"
        case Critiqued(said=said, error=error):
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
    """The decision; with what was said, where that is none of the words and was taken for one."""
    decision = one_word(said)
    return decision if decision in said.casefold() else f"{decision}, since it said {preview(said)}"


def _effect_words(effect_id: str, effect: Effect) -> str:
    """What has been begun with an effect; empty where it is not worth a line."""
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
            words = f"started as run {plain(child_of(effect_id))}"
        case Ask(prompt=prompt, subject=subject):
            words = f"waits for a person: {plain(prompt)} {preview(subject.get('arguments', {}))}"
        case MakePlan(told=told) if told:
            words = f"another plan is asked for: {plain(told)}"
        case _:
            pass
    return words.rstrip()
