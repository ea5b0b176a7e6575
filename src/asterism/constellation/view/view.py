"""The view of a constellation: tasks, dependencies and devices as rows, and its log in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from asterism.constellation.machine.events import (
    AskPlanner,
    AttemptAttached,
    AttemptBegun,
    AttemptEnded,
    AttemptProgressed,
    AttemptQueued,
    AttemptStopped,
    ConstellationSubmitted,
    Dispatch,
    Edited,
    LookAtAttempt,
    Planned,
    PlanningFailed,
    RaiseLimits,
    Retry,
    StopAttempt,
)
from asterism.constellation.machine.memory import NAMED, AwaitingApproval, AwaitingPlanner, ConstellationMemory, Deferred
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.edits import parse_action
from asterism.constellation.model.line import TaskStarLine
from asterism.constellation.model.task import SETTLED, TaskStar, TaskStatus
from asterism.constellation.view.words import (
    attempt_end_words,
    command_words,
    count_tasks,
    device_words,
    dispatch_words,
    edit_words,
    feedback_words,
    item_fields,
    moved_line,
    planned_words,
    sign_words,
)
from asterism.devices.model.attempt import DeviceFound, DeviceLost, DeviceQuestion
from asterism.engine.control.children import ChildBlocked, ChildEnded, SignalChild, StartChild, child_run_id
from asterism.engine.control.run_control import (
    Answered,
    AskPerson,
    BatchEnded,
    CancelEffect,
    OwnershipAcquired,
)
from asterism.engine.control.waits import WaitFor
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect, EffectResult, kind_of
from asterism.engine.kernel.phrase import Text, words_of
from asterism.engine.kernel.refusal import refusal_of
from asterism.engine.kernel.run import Run
from asterism.views.delta import LogLine, Weight, brief
from asterism.views.view import BaseView, Settled
from asterism.views.words import answer_words, last_line, ownership_words, plain, preview


class _Before(NamedTuple):
    """The fields that the log lines of an entry compare with."""

    state: str
    version: int
    generation: int
    limit: Text


def _before(run: Run[ConstellationMemory]) -> _Before:
    memory = run.memory
    return _Before(str(run.state) if run.seq else "", memory.constellation.version, memory.restarts, memory.limit)


class ConstellationRunView(BaseView):
    """The view of a run of a constellation agent; its parts are tasks."""

    def __init__(self, run: Run[ConstellationMemory]) -> None:
        super().__init__(run)
        self._before = _before(run)
        self._cancelled: dict[str, str] = {}
        self._statuses = {task.task_id: task.status for task in run.memory.constellation.tasks.values()}

    @property
    def memory(self) -> ConstellationMemory:
        """Return the memory of the agent."""
        memory: ConstellationMemory = self.run.memory
        return memory

    def log_entry(self, entry: Entry) -> list[LogLine]:
        """Read the next entry and return its log lines.

        No rows are made: that would take most of the time. The rows are made again when they are next read.
        """
        self._rows = None
        return self._replay(entry)[1]

    def _replay(self, entry: Entry) -> tuple[Settled | None, list[LogLine]]:
        # A child that the entry cancels belongs to the task that awaits it until now.
        self._before = _before(self.run)
        targets = [effect.effect_id for effect in entry.effects if isinstance(effect, CancelEffect | SignalChild)]
        self._cancelled = {target: self.part_of(target, self.run.outstanding.get(target)) for target in targets}
        return super()._replay(entry)

    # -- state rows --------------------------------------------------------------------------------

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield kind and key of every possible state row."""
        yield from super().parts()
        yield from (("device", device) for device in self.memory.fleet)
        constellation = self.memory.constellation
        yield from (("task", task_id) for task_id in constellation.tasks)
        yield from (("line", line_id) for line_id in constellation.lines)

    def row(self, kind: str, key: str) -> dict[str, Any] | None:
        """Return a state row; None if it does not exist."""
        constellation = self.memory.constellation
        match kind:
            case "task":
                return self._task_row(constellation, constellation.tasks[key]) if key in constellation.tasks else None
            case "line":
                return line_row(constellation.lines[key]) if key in constellation.lines else None
            case "device":
                return self._device_row(key)
            case _:
                return super().row(kind, key)

    def touched(self, entry: Entry) -> Iterator[tuple[str, str]]:
        """Yield the rows that an entry may have changed; a task that ends changes the dependencies that awaited it."""
        constellation = self.memory.constellation
        for kind, key in super().touched(entry):
            yield kind, key
            if kind == "task" and key in constellation.tasks and constellation.tasks[key].settled:
                yield from (("line", line_id) for line_id in constellation.awaiting(key))

    def run_row(self) -> dict[str, Any]:
        """Return the row of the run, with the constellation as a whole and the pending decision about it."""
        memory = self.memory
        constellation, options = memory.constellation, memory.options
        return {
            **super().run_row(),
            "request": brief(memory.request, 1),
            "started_at": memory.started_at,
            "ends_at": memory.started_at + options.wall_limit_s,
            "constellation_id": constellation.constellation_id,
            "name": constellation.name,
            "version": constellation.version,
            "generation": memory.restarts,
            "deciding": deciding(memory),
            "limit": str(memory.limit) or None,
            "still_running": [brief(words) for words in memory.still_running.values()] or None,
            "asks": memory.asks,
            "used": msgspec.structs.asdict(memory.used),
        }

    def _task_row(self, constellation: TaskConstellation, task: TaskStar) -> dict[str, Any]:
        child = task.effect_id if isinstance(self.run.outstanding.get(task.effect_id), StartChild) else ""
        wait = self.memory.waits.get(task.effect_id)
        return {
            "name": task.name,
            "order": constellation.ordinal(task.task_id),
            "role": task.role if task.role != "task" else None,
            "device": task.device,
            "skill": task.resolved_skill or task.skill,
            "inputs": brief(task.inputs),
            "env": brief(task.env),
            "folder": task.folder,
            "tasks": len(task.constellation["tasks"]) if task.constellation is not None else None,
            "requires_approval": task.requires_approval,
            "status": str(task.status),
            "queued": task.effect_id in self.memory.queued,
            "attempts": task.attempts,
            "effect": task.effect_id or None,
            "ask": task.inquiry_id or None,
            "waits": {"event": wait.event, "until": wait.until or None} if wait else None,
            "child": child_run_id(child) if child else None,
            "result": brief(task.result),
            "error": {"code": task.error.code, "message": brief(task.error.words)} if task.error else None,
            "not_before": task.not_before or None,
            "pending_at": task.became_pending_at or None,
            "started_at": task.started_at or None,
            "ended_at": task.ended_at or None,
            **item_fields(task),
        }

    def _device_row(self, device: str) -> dict[str, Any] | None:
        profile, reason = self.memory.fleet.get(device), self.memory.lost_devices.get(device)
        if profile is None:
            return None
        return {"kind": profile.kind, "description": profile.description, "lost": reason is not None, "reason": reason}

    # -- story rows --------------------------------------------------------------------------------

    def begun(self, effect_id: str, effect: Effect, seq: int) -> tuple[str, dict[str, Any]] | None:
        """Return the story row that an effect begins: an attempt at a task, or planning."""
        match effect:
            case AskPlanner():
                about, feedback = [*effect.batch[:NAMED]], brief(str(effect.feedback or ""), seq)
                return "planning", {"number": effect.number, "mode": str(effect.mode), "about": about, "feedback": feedback}
            case Dispatch():
                where = {"device": effect.device_id, "skill": effect.skill, "number": effect.number, "queued": effect.queued}
                return "attempt", {"kind": kind_of(effect), "part": effect.task_id, **where, "arguments": brief(effect.arguments, seq)}
            case StopAttempt(task_id=task_id, device=device):
                return "stop", {"part": task_id, "device": device, "of": effect.of, "handle": brief(effect.handle, seq)}
            case LookAtAttempt():
                return None
            case _:
                return super().begun(effect_id, effect, seq)

    def ended(self, event: EffectResult, seq: int) -> dict[str, Any]:
        """Return the fields that a result adds to the story row of its effect."""
        match event:
            case AttemptEnded(question=DeviceQuestion(prompt=prompt)):
                return {"result": None, "error": None, "question": brief(prompt, seq)}
            case AttemptStopped(error=error):
                return {"still_running": brief(error, seq) if error else None}
            case AttemptEnded(result=result, error=error):
                return {
                    "result": brief(result, seq),
                    "error": {"code": error.code, "message": brief(error.words, seq)} if error else None,
                }
            case Planned():
                said = {"thought": brief(event.thought, seq), "edits": len(event.actions), "usage": msgspec.structs.asdict(event.usage)}
                return {"status": str(event.status), "tasks": len(event.plan.tasks) if event.plan else None, **said}
            case PlanningFailed():
                return {"status": None, "reason": brief(event.reason, seq), "usage": msgspec.structs.asdict(event.usage)}
            case _:
                return super().ended(event, seq)

    def story(self, entry: Entry, settled: Settled | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield ids and fields of the story rows that an entry adds to, including the last progress report of an attempt."""
        yield from super().story(entry, settled)
        if isinstance(entry.event, AttemptProgressed):
            sign = {"fraction": entry.event.fraction, "message": brief(entry.event.message, entry.seq), "seen_at": entry.at}
            yield f"attempt:{entry.event.effect_id}", sign
        elif isinstance(entry.event, AttemptBegun):
            yield f"attempt:{entry.event.of}", {"queued": False, "begun_at": entry.at}
        elif isinstance(entry.event, AttemptQueued):
            yield f"attempt:{entry.event.of}", {"queued": True}

    def repeats(self, effect_id: str, effect: Effect) -> bool:
        """Return True if a resumed run performs an open effect again; False if it may be under way elsewhere."""
        if isinstance(effect, Dispatch):
            return effect.repeatable and effect_id not in self.memory.queued
        return super().repeats(effect_id, effect)

    # -- words -------------------------------------------------------------------------------------

    def part_of(self, effect_id: str, effect: Effect | None) -> str:
        """Return the task that an effect belongs to; empty for none, and for a cancelled child."""
        match effect:
            case Dispatch(task_id=task_id) | LookAtAttempt(task_id=task_id) | StopAttempt(task_id=task_id):
                return task_id
            case StartChild() if attempt := self.memory.attempts.get(effect_id):
                return attempt.task_id
            case AskPerson(subject=subject):
                return str(subject.get("task_id", ""))
            case WaitFor(about=task_id):
                return task_id
            case _:
                return ""

    def noted(self, entry: Entry) -> str:
        """Return the reason why an entry changed nothing."""
        if isinstance(entry.event, Edited) and (refusal := refusal_of(entry.note)):
            return f"edit by {entry.actor} refused: {refusal.subject}: {refusal.why} ({refusal.code})"
        return super().noted(entry)

    def lines(self, entry: Entry, settled: Settled | None) -> Iterable[LogLine]:
        """Yield the log lines of an entry: its event, its effects, and the other tasks that it ended."""
        was, memory = self._before, self.memory
        said = [*self.event_lines(entry, settled), *self._all_effect_lines(entry), *self._settled_lines(settled)]
        if isinstance(entry.event, Edited) and memory.constellation.version == was.version:  # the edit changed nothing; its notes say so
            said = [it for it in said if it.weight == "detail"]
        if memory.limit and memory.limit != was.limit:
            said.append(LogLine(f"run paused at a limit: {plain(memory.limit)}"))
        if entry.state != was.state and memory.code and memory.code != "cancelled":  # the cancel has its own line
            said.append(LogLine("run finished" if memory.code == "finished" else f"run failed: {plain(memory.reason)}"))
        if not said and isinstance(entry.event, BatchEnded):
            said.append(LogLine("schedule evaluated", weight="detail"))
        return said

    def _settled_lines(self, settled: Settled | None) -> list[LogLine]:
        """Return lines for the tasks that an entry has ended, or fanned out, although its event is not about them."""
        memory, about, known = self.memory, settled.part if settled else "", self._statuses
        restarted = memory.restarts > self._before.generation
        discarded = {task["task_id"]: msgspec.convert(task, TaskStar) for task in memory.archive[-1]["tasks"]} if restarted else {}
        lines: list[LogLine] = []
        for kind, task_id in self.run.touched:
            if kind != "task":
                continue
            now, before = memory.constellation.tasks.get(task_id), known.get(task_id)
            task = discarded.get(task_id) or now
            if task is not None and before is not None and before not in SETTLED and task_id != about:
                lines += filter(None, [moved_line(task, before)])
            if now is not None:
                known[task_id] = now.status
            else:
                known.pop(task_id, None)
        return lines

    def event_lines(self, entry: Entry, settled: Settled | None) -> Iterator[LogLine]:
        """Yield the log lines of the event of an entry."""
        event = entry.event
        match event:
            case ConstellationSubmitted():
                plan = f" with a plan of {count_tasks(spec.role for spec in event.plan.tasks)}" if event.plan else ""
                values = f" ({preview(event.params)})" if event.params else ""
                yield LogLine(f"submitted{plan}: {plain(event.request)}{values}", weight="detail")
            case OwnershipAcquired():
                yield from self._ownership_lines(event)
            case Planned() | PlanningFailed():
                yield LogLine(planned_words(event, settled.effect if settled else None))
            case AttemptEnded() | ChildEnded() | Answered():
                yield self._result_line(entry, event, settled)
            case ChildBlocked(effect_id=of, blocked=blocked):
                words = "waits for a person, or is paused" if blocked else "continues"
                yield LogLine(words, self.part_of(of, self.run.outstanding.get(of)), "event" if blocked else "detail")
            case AttemptProgressed(effect_id=of, fraction=fraction):
                percent = f"{fraction:.0%} " if fraction is not None else ""
                words = f"{percent}{plain(last_line(event.message))}".strip()
                yield LogLine(words, self.part_of(of, self.run.outstanding.get(of)), "progress")
            case AttemptBegun(of=of) | AttemptQueued(of=of) | AttemptAttached(of=of):
                effect = self.run.outstanding.get(of)
                words, weight = sign_words(event, effect)
                yield LogLine(words, self.part_of(of, effect), weight)
            case AttemptStopped():
                words, weight = sign_words(event, None)
                yield LogLine(words, settled.part if settled else "", weight)
            case Edited():
                yield from self._edit_lines(entry, event)
            case DeviceLost() | DeviceFound():
                yield LogLine(device_words(event))
            case RaiseLimits() | Retry():
                yield LogLine(command_words(entry.actor, event))
            case _:
                yield from super().event_lines(entry, settled)

    def _ownership_lines(self, event: OwnershipAcquired) -> Iterator[LogLine]:
        yield LogLine(ownership_words(event), weight="detail" if event.epoch == 1 else "event")
        for effect_id in event.retried:
            if isinstance(effect := self.run.outstanding.get(effect_id), Dispatch):  # a child run logs its own resumption
                again = "retried with the same key" if effect.repeatable else f"looked for on {plain(effect.device_id)}"
                yield LogLine("queued again" if effect_id in self.memory.queued else again, effect.task_id)

    def _edit_lines(self, entry: Entry, event: Edited) -> Iterator[LogLine]:
        """Yield a line for each edit."""
        for number, action in enumerate(event.actions, start=1):
            after = f", version {self.memory.constellation.version}" if number == len(event.actions) else ""
            task_id, words = edit_words(parse_action(action))
            yield LogLine(f"{plain(entry.actor)} {words}{after}", task_id)
        for note in entry.side_effects.get("notes", ()):
            yield LogLine(plain(words_of(note)), weight="detail")

    def _result_line(self, entry: Entry, event: AttemptEnded | ChildEnded | Answered, settled: Settled | None) -> LogLine:
        """Return the line of the end of an attempt, or of an answer."""
        task_id = settled.part if settled else ""
        task = self.memory.constellation.tasks.get(task_id)
        if isinstance(event, Answered):
            if event.cancelled:
                return LogLine("question cancelled", task_id, "detail")
            return LogLine(answer_words(entry, event), task_id)
        # The task of a cancelled child is no longer known.
        is_cancelled = task.status is TaskStatus.CANCELLED if task else not task_id
        weight: Weight = "detail" if is_cancelled else "event"
        ended = f"run {plain(child_run_id(event.effect_id))}: " if isinstance(event, ChildEnded) and not task_id else ""
        return LogLine(ended + attempt_end_words(event, task, entry.at), task_id, weight)

    def _all_effect_lines(self, entry: Entry) -> Iterator[LogLine]:
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            if isinstance(effect, CancelEffect | SignalChild):
                part = self._cancelled[effect.effect_id] or self.part_of(effect.effect_id, self.run.outstanding.get(effect.effect_id))
                command = plain(effect.command.get("type", "")) if isinstance(effect, SignalChild) else ""
                yield LogLine(f"{command} sent to its run" if command else "asked to stop", part, "detail")
            else:
                yield from self.effect_lines(effect_id, effect)

    def effect_lines(self, effect_id: str, effect: Effect) -> Iterator[LogLine]:
        """Yield the log lines of an issued effect."""
        task_id = self.part_of(effect_id, effect)
        match effect:
            case Dispatch():
                task = self.memory.constellation.tasks.get(task_id)
                yield LogLine(dispatch_words(effect, task.name if task else ""), task_id)
            case StopAttempt(device=device):
                yield LogLine(f"to be stopped on {plain(device)}", task_id, "detail")
            case AskPlanner():
                feedback = f": {plain(feedback_words(effect.feedback))}" if effect.feedback else ""
                yield LogLine(f"planner asked{feedback}", weight="event" if effect.feedback else "detail")
            case StartChild():
                yield LogLine(f"started as run {plain(child_run_id(effect_id))}", task_id)
            case _:
                yield from super().effect_lines(effect_id, effect)


def line_row(line: TaskStarLine) -> dict[str, Any]:
    """Return the row of a dependency."""
    verdict = line.verdict
    return {
        "from": line.source,
        "to": line.target,
        "type": str(line.type),
        "condition": line.condition or None,
        "satisfied": verdict.satisfied if verdict else None,
        "reason": (str(verdict.reason) or None) if verdict else None,
    }


def deciding(memory: ConstellationMemory) -> dict[str, Any] | None:
    """Return the pending decision about the constellation: who decides, and the first of the tasks it is about."""
    planning = memory.planning
    match planning:
        case AwaitingPlanner() | AwaitingApproval():
            by = "planner" if isinstance(planning, AwaitingPlanner) else "person"
            return {
                "by": by,
                "effect": planning.effect_id,
                "about": [*planning.request.batch[:NAMED]],
                "tasks": len(planning.request.batch),
            }
        case Deferred(request=request):
            return {"by": "nobody yet", "effect": None, "about": [*request.batch[:NAMED]], "tasks": len(request.batch)}
        case _:
            return None
