"""What a loop's run promises besides: steps in their turn, tools and workers after their yes, an answer that is not lost."""

from __future__ import annotations

import collections
import itertools
from typing import Any

from asterism.kernel.journal import Entry
from asterism.kernel.machine import Effect
from asterism.machines.children import SignalChild, StartChild
from asterism.machines.orchestration_loop.effects import AskModel, CallTool, Reflect, RunWorker
from asterism.machines.orchestration_loop.events import Critiqued, ModelReplied, PlanMade, Reflected, Synthesized, ToolReturned, WorkerEnded
from asterism.machines.orchestration_loop.memory import Activity, LoopMemory
from asterism.machines.orchestration_loop.model import Step, ToolCall
from asterism.machines.run_control import Answered, AskPerson, CancelEffect, Forked
from asterism.simulation.checks.watched import Watched, canonical

Call = tuple[str, str]
"""The step and the model's name for a call."""


class WatchedLoop(Watched[LoopMemory]):
    """One run of the orchestration loop."""

    edges = {  # noqa: RUF012 - as the machine's own
        "PLANNING": "EXECUTING FAILED CANCELLED",
        "EXECUTING": "OBSERVING WAITING PARALLEL CONFIRMING FAILED CANCELLED",
        "OBSERVING": "REFLECTING FAILED CANCELLED",
        "REFLECTING": "PLANNING EXECUTING COMPLETE FAILED CANCELLED",
        "WAITING": "EXECUTING PARALLEL FAILED CANCELLED",
        "PARALLEL": "OBSERVING WAITING CONFIRMING FAILED CANCELLED",
        "CONFIRMING": "EXECUTING PARALLEL FAILED CANCELLED",
        "COMPLETE": "",
        "FAILED": "",
        "CANCELLED": "",
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._done: dict[str, str] = {}  # how the steps of the current plan have come out
        self._yes: collections.Counter[bytes] = collections.Counter()
        self._unsure: set[str] = set()
        self._anew: set[str] = set()  # steps that were under way where this run was forked, and may be repeated
        self._unsure_calls: set[Call] = set()
        self._calls: dict[Call, ToolCall] = {}
        self._used: set[tuple[str, str]] = set()
        self._trusted: set[tuple[str, str]] = set()  # by worker: another's tool of the same name is another tool
        self._begun = 0
        self._tries: collections.Counter[str] = collections.Counter()  # of the steps of the current plan
        self._replies: collections.Counter[str] = collections.Counter()  # of models, in the tries that are under way
        self._plans = self._reflections = self._refused = self._tokens = 0
        self._drafted: list[Any] = []
        self._was_paused = False
        self._must_ask = self._is_left = False
        self._found = 0

    def is_once(self, effect: Effect) -> bool:
        return isinstance(effect, RunWorker | CallTool) and not effect.idempotent

    def limit_s(self) -> float | None:
        return self.replayed.memory.options.wall_limit_s

    def before(self, entry: Entry) -> None:
        memory = self.replayed.memory
        self._tokens += 0 if entry.note else getattr(entry.event, "tokens", 0)
        self._was_paused, self._found, self._must_ask = memory.paused, len(memory.findings), False
        self._is_left = getattr(entry.event, "effect_id", "") in self.replayed.abandoned
        if isinstance(entry.event, WorkerEnded | ToolReturned) and self._is_left:
            return  # it was called off, and has no consequence
        self._must_ask = isinstance(entry.event, WorkerEnded | ToolReturned) and entry.event.interrupted and not entry.note
        self._hear(entry)

    def after(self, entry: Entry) -> None:
        memory = self.replayed.memory
        if isinstance(entry.event, PlanMade) and entry.state == "EXECUTING":
            for known in (self._done, self._unsure, self._anew, self._tries):
                known.clear()
            self._plans += 1
        for finding in memory.findings[self._found :]:
            self._done[finding.step_id] = finding.status
            self._unsure.discard(finding.step_id)
            self._anew.discard(finding.step_id)
        if self._must_ask and not any(isinstance(effect, AskPerson) for effect in entry.effects):
            raise self.fail(9, f"entry {entry.seq} tells of what may have finished, and nobody is asked about it")
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            self._check_effect(entry, effect_id, effect)
        self._check_under_way()
        self._check_bounds(entry)
        if entry.state == "COMPLETE" and [memory.answer] != self._drafted[-1:]:
            raise self.fail(6, f"it is complete with {memory.answer!r}, and the last answer that was made is {self._drafted[-1:]}")

    # -- what was said -----------------------------------------------------------------------------

    def _hear(self, entry: Entry) -> None:
        if entry.note:
            return
        event = entry.event
        effect = self.effects.get(getattr(event, "effect_id", ""))
        if isinstance(event, Answered) and isinstance(effect, AskPerson) and not event.cancelled:
            self._hear_answer(event, effect.subject)
        elif isinstance(event, WorkerEnded) and isinstance(effect, RunWorker) and event.interrupted:
            self._unsure.add(effect.step_id)
        elif isinstance(event, ToolReturned) and isinstance(effect, CallTool) and event.interrupted:
            self._unsure_calls.add((effect.step_id, effect.call_id))
        elif isinstance(event, ModelReplied) and isinstance(effect, AskModel):
            self._replies[effect.step_id] += not event.error
            for call in event.calls:
                self._calls[effect.step_id, call.call_id] = call
                self._unsure_calls.discard((effect.step_id, call.call_id))
        elif isinstance(event, Synthesized) and not event.error:
            self._drafted.append(event.answer)
        elif isinstance(event, Forked):
            self._hear_of_fork()

    def _hear_answer(self, event: Answered, subject: dict[str, Any]) -> None:
        if event.verb not in ("approve", "edit"):
            return
        changes = event.value if event.verb == "edit" else {}
        self._yes[canonical(_approved(subject, changes))] += 1
        if "tool" in subject and event.verb == "approve" and isinstance(event.value, dict) and event.value.get("always") is True:
            for activity in self.replayed.memory.active.values():
                if any(call.question.inquiry_id == event.effect_id for call in activity.calls):
                    self._trusted.add((activity.worker, subject["tool"]))

    def _hear_of_fork(self) -> None:
        """What was under way begins anew, and what may not be repeated only after a yes to that."""
        memory = self.replayed.memory
        self._trusted.clear()
        for step_id, activity in memory.active.items():
            profile = memory.workers.get(activity.worker)
            if activity.effect_id and profile:
                (self._anew if profile.idempotent or profile.converses else self._unsure).add(step_id)
            self._unsure_calls.update(
                (step_id, call.asked.call_id) for call in activity.calls if call.effect_id and not call.asked.idempotent
            )

    # -- what is begun -----------------------------------------------------------------------------

    def _check_effect(self, entry: Entry, effect_id: str, effect: Effect) -> None:
        memory = self.replayed.memory
        self._reflections += isinstance(effect, Reflect)
        limit = memory.options.max_tokens
        if limit is not None and self._tokens > limit and not isinstance(effect, AskPerson | SignalChild | CancelEffect):
            raise self.fail(8, f"{effect_id} is begun after {self._tokens} tokens (max_tokens {limit})")
        if isinstance(effect, CallTool):
            self._check_call(effect)
        elif isinstance(effect, RunWorker | StartChild) or (isinstance(effect, AskModel) and effect.round == 1):
            activity = next((it for it in memory.active.values() if it.effect_id == effect_id), None)
            if activity is None:
                raise self.fail(2, f"{effect_id} is begun, and no step that is under way has begun it")
            self._check_step(entry, activity)
        elif isinstance(effect, AskModel) and self._replies[effect.step_id] >= memory.options.max_rounds:
            raise self.fail(8, f"the model of {effect.step_id} is asked once more (max_rounds {memory.options.max_rounds})")

    def _check_step(self, entry: Entry, activity: Activity) -> None:
        memory, step = self.replayed.memory, activity.step
        if missing := [earlier for earlier in _before(memory.plan, step.step_id) if earlier not in self._done]:
            raise self.fail(2, f"{step.step_id} began before {', '.join(missing)} had come to anything")
        if self._done.get(step.step_id) == "ok":
            raise self.fail(2, f"{step.step_id} began again, and it had been done")
        if self._was_paused:
            raise self.fail(2, f"{step.step_id} began while the run was paused")
        if entry.at > memory.started_at + memory.options.wall_limit_s:
            raise self.fail(8, f"{step.step_id} began after the time of the run was up")
        is_new = step.step_id not in self._unsure | self._anew  # what a person or a fork has begin again is no new step
        self._begun += is_new
        self._tries[step.step_id] += is_new
        self._replies[step.step_id] = 0
        if self._begun > memory.options.max_steps:
            raise self.fail(8, f"{self._begun} steps were begun (max_steps {memory.options.max_steps})")
        wants = memory.workers[activity.worker].requires_approval or step.requires_approval or step.step_id in self._unsure
        subject = {"step_id": step.step_id, "worker": activity.worker, "intent": step.intent, "context": step.context}
        if wants and not self._spend(subject):
            raise self.fail(9, f"{step.step_id} began with {step.context}, which nobody has approved")
        self._unsure.discard(step.step_id)
        self._anew.discard(step.step_id)

    def _check_call(self, effect: CallTool) -> None:
        call, asked = (effect.step_id, effect.call_id), self._calls[effect.step_id, effect.call_id]
        if asked.denied:
            raise self.fail(9, f"{effect.tool} is called, which was denied: {asked.denied}")
        tool = (effect.worker, effect.tool)
        gated = asked.gate and tool not in self._trusted and not (asked.gate == "first_time" and tool in self._used)
        said_yes = self._spend({"tool": effect.tool, "arguments": effect.arguments})
        if (gated or call in self._unsure_calls or effect.arguments != asked.arguments) and not said_yes:
            raise self.fail(9, f"{effect.tool} is called with {effect.arguments}, which nobody has approved")
        self._unsure_calls.discard(call)
        self._used.add(tool)

    def _spend(self, subject: dict[str, Any]) -> bool:
        """Use up a yes to exactly this; False where there is none."""
        said_yes = self._yes[canonical(subject)] > 0
        self._yes[canonical(subject)] -= said_yes
        return said_yes

    def _check_bounds(self, entry: Entry) -> None:
        """Nothing is done more often than the options say, past a bound it is over, and not before."""
        options, code = self.replayed.memory.options, self.replayed.memory.code
        if isinstance(entry.event, PlanMade | Reflected | Synthesized | Critiqued) and not entry.note and not self._is_left:
            came_to_nothing = entry.event.error or (isinstance(entry.event, PlanMade) and entry.state != "EXECUTING")
            self._refused = self._refused + 1 if came_to_nothing else 0
            if came_to_nothing and entry.state == "FAILED" and self._refused < options.max_calls:
                raise self.fail(8, f"it gives up after {self._refused} calls that came to nothing (max_calls {options.max_calls})")
        done = {
            "max_replans": self._plans - 1,
            "max_attempts": max(self._tries.values(), default=0),
            "max_reflections": self._reflections,
            "max_revisions": len(self._drafted) - 1,
            "max_calls": self._refused + (entry.state in ("PLANNING", "REFLECTING")),
        }
        for name, count in done.items():
            if count > getattr(options, name):
                raise self.fail(8, f"{count} ({name} {getattr(options, name)}), and it goes on")
        used_up = {
            "max_replans": max(self._plans - 1, 0) >= options.max_replans,
            "max_reflections": self._reflections >= options.max_reflections,
            "max_tokens": options.max_tokens is not None and self._tokens > options.max_tokens,
        }
        if not used_up.get(code, True):
            raise self.fail(8, f"it gives up for {code}, which is not used up")

    def _check_under_way(self) -> None:
        """No more at once than it may, and no step twice."""
        memory = self.replayed.memory
        steps = collections.Counter(
            effect.step_id
            for effect_id, effect in self.replayed.outstanding.items()
            if isinstance(effect, RunWorker | AskModel) and effect_id not in self.replayed.abandoned
        )
        if twice := [step_id for step_id, count in steps.items() if count > 1]:
            raise self.fail(2, f"{', '.join(twice)} is under way twice")
        if len(steps) > memory.options.max_parallel:
            raise self.fail(2, f"{len(steps)} steps are under way at once (max_parallel {memory.options.max_parallel})")


def _before(plan: list[Step], step_id: str) -> list[str]:
    """The steps that must have come to something before this one begins: all of the earlier groups."""
    earlier: list[str] = []
    # A step without a group is one by itself.
    for _, steps in itertools.groupby(enumerate(plan), lambda it: it[1].group or f"\0{it[0]}"):
        ids = [step.step_id for _, step in steps]
        if step_id in ids:
            return earlier
        earlier += ids
    return []


def _approved(subject: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """What a yes to this, changed like that, allows: a call, or a step as its worker is told of it."""
    if "tool" in subject:
        return {**subject, "arguments": {**subject["arguments"], **changes}}
    loose = {name: value for name, value in changes.items() if name not in ("intent", "context")}
    told = {name: subject[name] for name in ("step_id", "worker")}
    context = {**subject["context"], **changes.get("context", {}), **loose}
    return {**told, "intent": changes.get("intent", subject["intent"]), "context": context}
