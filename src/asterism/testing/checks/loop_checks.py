"""Checks of a loop run: order of steps, approval of workers and tools, limits, and the final answer."""

from __future__ import annotations

import collections
import itertools
from typing import Any

from asterism.engine.control.children import SignalChild, StartChild
from asterism.engine.control.run_control import Answered, AskPerson, CancelEffect, Forked
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect
from asterism.loop.machine.effects import AskModel, CallTool, Reflect, RunWorker
from asterism.loop.machine.events import Critiqued, ModelReplied, PlanMade, Reflected, Synthesized, ToolReturned, WorkerEnded
from asterism.loop.machine.memory import Activity, LoopMemory
from asterism.loop.machine.model import Step, ToolCall
from asterism.testing.checks.run_checks import RunChecks, canonical

Call = tuple[str, str]
"""Step id and call id of a tool call."""


class LoopChecks(RunChecks[LoopMemory]):
    """Checks of one run of the orchestration loop."""

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
        self._step_status: dict[str, str] = {}  # status of the finished steps of the current plan
        self._approvals: collections.Counter[bytes] = collections.Counter()
        self._uncertain: set[str] = set()
        self._forked: set[str] = set()  # steps that were active at the fork and may be repeated
        self._uncertain_calls: set[Call] = set()
        self._calls: dict[Call, ToolCall] = {}
        self._used: set[tuple[str, str]] = set()
        self._trusted: set[tuple[str, str]] = set()  # (worker, tool) pairs
        self._started = 0
        self._tries: collections.Counter[str] = collections.Counter()  # attempts at the steps of the current plan
        self._replies: collections.Counter[str] = collections.Counter()  # model replies in the current attempts
        self._plans = self._reflections = self._failed_calls = self._tokens = 0
        self._answers: list[Any] = []
        self._was_paused = False
        self._must_ask = self._is_abandoned = False
        self._findings = 0

    def is_unrepeatable(self, effect: Effect) -> bool:
        return isinstance(effect, RunWorker | CallTool) and not effect.idempotent

    def limit_s(self) -> float | None:
        return self.replayed.memory.options.wall_limit_s

    def before(self, entry: Entry) -> None:
        memory = self.replayed.memory
        self._tokens += 0 if entry.note else getattr(entry.event, "tokens", 0)
        self._was_paused, self._findings, self._must_ask = memory.paused, len(memory.findings), False
        self._is_abandoned = getattr(entry.event, "effect_id", "") in self.replayed.abandoned
        if isinstance(entry.event, WorkerEnded | ToolReturned) and self._is_abandoned:
            return  # a cancelled effect; its result is ignored
        self._must_ask = isinstance(entry.event, WorkerEnded | ToolReturned) and entry.event.interrupted and not entry.note
        self._track(entry)

    def after(self, entry: Entry) -> None:
        memory = self.replayed.memory
        if isinstance(entry.event, PlanMade) and entry.state == "EXECUTING":
            for known in (self._step_status, self._uncertain, self._forked, self._tries):
                known.clear()
            self._plans += 1
        for finding in memory.findings[self._findings :]:
            self._step_status[finding.step_id] = finding.status
            self._uncertain.discard(finding.step_id)
            self._forked.discard(finding.step_id)
        if self._must_ask and not any(isinstance(effect, AskPerson) for effect in entry.effects):
            raise self.fail(9, f"entry {entry.seq} reports work that may have finished, but no person is asked about it")
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            self._check_effect(entry, effect_id, effect)
        self._check_active()
        self._check_bounds(entry)
        if entry.state == "COMPLETE" and [memory.answer] != self._answers[-1:]:
            raise self.fail(6, f"the run is complete with {memory.answer!r}, but the last answer was {self._answers[-1:]}")

    # -- events ------------------------------------------------------------------------------------

    def _track(self, entry: Entry) -> None:
        if entry.note:
            return
        event = entry.event
        effect = self.effects.get(getattr(event, "effect_id", ""))
        if isinstance(event, Answered) and isinstance(effect, AskPerson) and not event.cancelled:
            self._track_answer(event, effect.subject)
        elif isinstance(event, WorkerEnded) and isinstance(effect, RunWorker) and event.interrupted:
            self._uncertain.add(effect.step_id)
        elif isinstance(event, ToolReturned) and isinstance(effect, CallTool) and event.interrupted:
            self._uncertain_calls.add((effect.step_id, effect.call_id))
        elif isinstance(event, ModelReplied) and isinstance(effect, AskModel):
            self._replies[effect.step_id] += not event.error
            for call in event.calls:
                self._calls[effect.step_id, call.call_id] = call
                self._uncertain_calls.discard((effect.step_id, call.call_id))
        elif isinstance(event, Synthesized) and not event.error:
            self._answers.append(event.answer)
        elif isinstance(event, Forked):
            self._track_fork()

    def _track_answer(self, event: Answered, subject: dict[str, Any]) -> None:
        if event.verb not in ("approve", "edit"):
            return
        changes = event.value if event.verb == "edit" else {}
        self._approvals[canonical(_approved(subject, changes))] += 1
        if "tool" in subject and event.verb == "approve" and isinstance(event.value, dict) and event.value.get("always") is True:
            for activity in self.replayed.memory.active.values():
                if any(call.inquiry_id == event.effect_id for call in activity.calls):
                    self._trusted.add((activity.worker, subject["tool"]))

    def _track_fork(self) -> None:
        """Note the active steps, which start again, and those among them that need an approval first."""
        memory = self.replayed.memory
        self._trusted.clear()
        for step_id, activity in memory.active.items():
            profile = memory.workers.get(activity.worker)
            if activity.effect_id and profile:
                (self._forked if profile.idempotent or profile.converses else self._uncertain).add(step_id)
            self._uncertain_calls.update(
                (step_id, call.asked.call_id) for call in activity.calls if call.effect_id and not call.asked.idempotent
            )

    # -- effects -----------------------------------------------------------------------------------

    def _check_effect(self, entry: Entry, effect_id: str, effect: Effect) -> None:
        memory = self.replayed.memory
        self._reflections += isinstance(effect, Reflect)
        limit = memory.options.max_tokens
        if limit is not None and self._tokens > limit and not isinstance(effect, AskPerson | SignalChild | CancelEffect):
            raise self.fail(8, f"{effect_id} is scheduled after {self._tokens} tokens (max_tokens {limit})")
        if isinstance(effect, CallTool):
            self._check_call(effect)
        elif isinstance(effect, RunWorker | StartChild) or (isinstance(effect, AskModel) and effect.round == 1):
            activity = next((it for it in memory.active.values() if it.effect_id == effect_id), None)
            if activity is None:
                raise self.fail(2, f"{effect_id} is scheduled, but belongs to no active step")
            self._check_step(entry, activity)
        elif isinstance(effect, AskModel) and self._replies[effect.step_id] >= memory.options.max_rounds:
            raise self.fail(8, f"the model of {effect.step_id} is asked too often (max_rounds {memory.options.max_rounds})")

    def _check_step(self, entry: Entry, activity: Activity) -> None:
        memory, step = self.replayed.memory, activity.step
        if missing := [earlier for earlier in _steps_before(memory.plan, step.step_id) if earlier not in self._step_status]:
            raise self.fail(2, f"{step.step_id} started before {', '.join(missing)} had finished")
        if self._step_status.get(step.step_id) == "ok":
            raise self.fail(2, f"{step.step_id} started again after it was done")
        if self._was_paused:
            raise self.fail(2, f"{step.step_id} started while the run was paused")
        if entry.at > memory.started_at + memory.options.wall_limit_s:
            raise self.fail(8, f"{step.step_id} started after the time limit of the run")
        is_new = step.step_id not in self._uncertain | self._forked  # a step repeated by a person or a fork is not new
        self._started += is_new
        self._tries[step.step_id] += is_new
        self._replies[step.step_id] = 0
        if self._started > memory.options.max_steps:
            raise self.fail(8, f"{self._started} steps were started (max_steps {memory.options.max_steps})")
        wants = memory.workers[activity.worker].requires_approval or step.requires_approval or step.step_id in self._uncertain
        subject = {"step_id": step.step_id, "worker": activity.worker, "intent": step.intent, "context": step.context}
        if wants and not self._use_approval(subject):
            raise self.fail(9, f"{step.step_id} started with {step.context} without an approval")
        self._uncertain.discard(step.step_id)
        self._forked.discard(step.step_id)

    def _check_call(self, effect: CallTool) -> None:
        call, asked = (effect.step_id, effect.call_id), self._calls[effect.step_id, effect.call_id]
        if asked.denied:
            raise self.fail(9, f"{effect.tool} is called although it was denied: {asked.denied}")
        tool = (effect.worker, effect.tool)
        gated = asked.gate and tool not in self._trusted and not (asked.gate == "first_time" and tool in self._used)
        is_approved = self._use_approval({"tool": effect.tool, "arguments": effect.arguments})
        if (gated or call in self._uncertain_calls or effect.arguments != asked.arguments) and not is_approved:
            raise self.fail(9, f"{effect.tool} is called with {effect.arguments} without an approval")
        self._uncertain_calls.discard(call)
        self._used.add(tool)

    def _use_approval(self, subject: dict[str, Any]) -> bool:
        """Use up one approval of exactly this subject; return False if there is none."""
        is_approved = self._approvals[canonical(subject)] > 0
        self._approvals[canonical(subject)] -= is_approved
        return is_approved

    def _check_bounds(self, entry: Entry) -> None:
        """Check that no limit of the options is exceeded, and that the run ends for a limit only when it is reached."""
        options, code = self.replayed.memory.options, self.replayed.memory.code
        if isinstance(entry.event, PlanMade | Reflected | Synthesized | Critiqued) and not entry.note and not self._is_abandoned:
            has_failed = entry.event.error or (isinstance(entry.event, PlanMade) and entry.state != "EXECUTING")
            self._failed_calls = self._failed_calls + 1 if has_failed else 0
            if has_failed and entry.state == "FAILED" and self._failed_calls < options.max_calls:
                raise self.fail(
                    8, f"the run failed for max_calls after {self._failed_calls} failed calls, below the limit of {options.max_calls}"
                )
        done = {
            "max_replans": self._plans - 1,
            "max_attempts": max(self._tries.values(), default=0),
            "max_reflections": self._reflections,
            "max_revisions": len(self._answers) - 1,
            "max_calls": self._failed_calls + (entry.state in ("PLANNING", "REFLECTING")),
        }
        for name, count in done.items():
            if count > getattr(options, name):
                raise self.fail(8, f"the run continues past {name} {getattr(options, name)}: {count}")
        used_up = {
            "max_replans": max(self._plans - 1, 0) >= options.max_replans,
            "max_reflections": self._reflections >= options.max_reflections,
            "max_tokens": options.max_tokens is not None and self._tokens > options.max_tokens,
        }
        if not used_up.get(code, True):
            raise self.fail(8, f"the run fails for {code}, which is not reached")

    def _check_active(self) -> None:
        """Check that no step runs twice at once, and that no more run at once than allowed."""
        memory = self.replayed.memory
        steps = collections.Counter(
            effect.step_id
            for effect_id, effect in self.replayed.outstanding.items()
            if isinstance(effect, RunWorker | AskModel) and effect_id not in self.replayed.abandoned
        )
        if twice := [step_id for step_id, count in steps.items() if count > 1]:
            raise self.fail(2, f"active twice: {', '.join(twice)}")
        if len(steps) > memory.options.max_parallel:
            raise self.fail(2, f"{len(steps)} steps are active at once (max_parallel {memory.options.max_parallel})")


def _steps_before(plan: list[Step], step_id: str) -> list[str]:
    """Return the steps that must finish before this one starts: those of all earlier groups."""
    earlier: list[str] = []
    # A step without a group forms its own.
    for _, steps in itertools.groupby(enumerate(plan), lambda it: it[1].group or f"\0{it[0]}"):
        ids = [step.step_id for _, step in steps]
        if step_id in ids:
            return earlier
        earlier += ids
    return []


def _approved(subject: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the call or step that an approval of this subject with these changes allows."""
    if "tool" in subject:
        return {**subject, "arguments": {**subject["arguments"], **changes}}
    loose = {name: value for name, value in changes.items() if name not in ("intent", "context")}
    fixed = {name: subject[name] for name in ("step_id", "worker")}
    context = {**subject["context"], **changes.get("context", {}), **loose}
    return {**fixed, "intent": changes.get("intent", subject["intent"]), "context": context}
