"""What ``show`` and ``why`` print about a constellation: its tasks, its metrics, and the decisions on its plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from asterism.constellation.machine.events import Dispatch, Edited
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.constellation.view.history import ConstellationHistory
from asterism.constellation.view.metrics import measure
from asterism.constellation.view.plan_history import PlanDecision, change_words, decision_words, usage_words
from asterism.constellation.view.proposals import proposal_lines, subject_of
from asterism.constellation.view.task_details import metric_lines, task_lines
from asterism.constellation.view.words import place_of, task_items_words
from asterism.engine.control.run_control import AskPerson
from asterism.engine.ports.store import InquiryRow, RunRow
from asterism.views.text.history import MAX_LISTED, HistoryLine, PartEvent, PartLines
from asterism.views.text.styled_line import DAYTIME, StyledLine, TimeFormat
from asterism.views.words import count, plain, preview


class ShownConstellation(ConstellationHistory):
    """The history of a constellation run, as it is shown."""

    has_commands = True
    retries = True

    def part_name(self, part: str) -> str:
        """Return the name of a task."""
        task = self.constellation.tasks.get(part)
        return task.name if task else ""

    def failed_part(self) -> str:
        """Return the first failed task."""
        tasks = self.constellation.in_order()
        return next((task.task_id for task in tasks if task.status is TaskStatus.FAILED and task.role == "task"), "")

    def start_lines(self, row: RunRow) -> Iterator[StyledLine]:
        """Yield lines about the parameters and the fleet of a run, its earlier rounds and the limit at which it has paused."""
        memory = self.memory
        if memory.params:
            yield StyledLine(f"parameters {preview(memory.params)}", "dim")
        if memory.fleet_file:
            yield StyledLine(f"fleet {plain(memory.fleet_file)}", "dim")
        if memory.previous_rounds:
            before = ", ".join(str(earlier.get("run", "")) for earlier in memory.previous_rounds)
            yield StyledLine(f"session {plain(row.session)}: follows {plain(before)}", "dim")
        if memory.limit:
            yield StyledLine(f"paused at a limit: {plain(memory.limit)}", "yellow")

    def nested_lines(self, lines: Iterable[HistoryLine], now: float, local_time: TimeFormat, below: PartLines) -> Iterator[StyledLine]:
        """Yield the lines about each task, below the task that has started the run."""
        return task_lines(self, lines, measure(self, now), local_time, below)

    def detail_lines(self, lines: Iterable[HistoryLine], now: float, local_time: TimeFormat, below: PartLines) -> Iterator[StyledLine]:
        """Yield the lines about each task, the metrics and the decisions on the plan."""
        metrics = measure(self, now)
        yield from (StyledLine("tasks", "bold"), *task_lines(self, lines, metrics, local_time, below))
        yield from (StyledLine(), StyledLine("metrics", "bold"), *metric_lines(metrics))
        yield from _planning_lines(self, local_time)

    def subject_lines(self, question: InquiryRow) -> list[str]:
        """Return the subject of an open question in short: a proposal as a graph or as changes."""
        return proposal_lines(subject_of(question))

    def data_fields(self, now: float, states: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the plan, its metrics and the decisions on it as JSON data."""
        memory, plan = self.memory, self.constellation
        return {
            "states": [{**state, "constellation_id": plan.constellation_id} for state in states],
            "params": memory.params,
            "constellation": plan.shown(),
            "metrics": msgspec.to_builtins(measure(self, now)),
            "planning": [decision.shown() for decision in self.decisions],
            "usage": {"questions": memory.asks, "tokens": memory.used.tokens, **msgspec.to_builtins(memory.used)},
            "limit": str(memory.limit),
            "earlier": [earlier.get("run", "") for earlier in memory.previous_rounds],
        }

    # -- why ---------------------------------------------------------------------------------------

    def events_of(self, part: str, lines: Iterable[HistoryLine]) -> list[PartEvent]:
        """Return the events of a task, and those that changed its plan; of an item, also how its task came to be."""
        lines = list(lines)
        events = task_events(part, self, super().events_of(part, lines))
        item = self.constellation.tasks.get(part)
        if item is not None and item.item_of:
            first = min((it.seq for it in events), default=0)
            events[:0] = [it for it in self.events_of(item.item_of, lines) if not first or it.seq <= first][-1:]
        return events

    def reasons(self, it: HistoryLine) -> tuple[str, ...] | None:
        """Return the arguments of attempts; None for edits, whose reasons a decision has."""
        if isinstance(it.entry.event, Edited) or super().reasons(it) is None:
            return None
        given = [effect for effect in it.entry.effects if isinstance(effect, Dispatch) and effect.task_id == it.part and effect.arguments]
        return tuple(f"arguments: {preview(effect.arguments, 500)}" for effect in given)

    def standing(self, part: str) -> str:
        """Return the current status of a task in words, with the reason."""
        return task_status_words(self, part)


def _planning_lines(history: ConstellationHistory, local_time: TimeFormat) -> Iterator[StyledLine]:
    """Yield lines about the decisions on the constellation; none for a submitted plan that was never changed."""
    listed, memory = history.later_decisions, history.memory
    if not listed:
        return
    yield from (StyledLine(), StyledLine("planning", "bold"))
    for decision in listed[:MAX_LISTED]:
        head, *more = decision_words(decision)
        line = StyledLine(f"  #{decision.seq} {local_time(decision.at, DAYTIME)}  ", "dim").append(head)
        yield line.append(f"  ({plain(decision.actor)})", "dim")
        yield from (StyledLine(f"      {text}") for text in more)
    if len(listed) > MAX_LISTED:
        yield StyledLine(f"  and {count(len(listed) - MAX_LISTED, 'decision')} more; --json has all", "dim")
    if memory.asks:
        used = usage_words(memory.used)
        yield StyledLine(f"  total: {count(memory.asks, 'question')}{f', {used}' if used else ''}")


def task_events(task_id: str, history: ConstellationHistory, logged: Iterable[PartEvent]) -> list[PartEvent]:
    """Return the events of a task in order; empty if it never existed.

    Args:
        task_id: id of the task.
        history: history of the run.
        logged: its events in the log.
    """
    decisions = history.decisions
    found = [reason for decision in decisions if (reason := _of_decision(task_id, decision))]
    for it in logged:
        generation = max((decision.generation for decision in decisions if decision.seq <= it.seq), default=0)
        found.append(msgspec.structs.replace(it, generation=generation))
    return sorted(found, key=lambda reason: reason.seq)


def _of_decision(task_id: str, decision: PlanDecision) -> PartEvent | None:
    own = next((change for change in decision.changed if change.part == "task" and change.id == task_id), None)
    lines = [change for change in decision.changed if change.part == "dependency" and task_id in change.ends]
    if own is None and not lines:
        return None
    verb = "its dependencies changed"
    if own is not None:
        verb = "added" if own.before is None else "removed" if own.after is None else "changed"
    asked = decision.asked
    because = [f"the planner was asked about {', '.join(map(plain, decision.batch[:10]))}"] if decision.batch else []
    because += [f"because its last answer was not accepted: {plain(str(asked.feedback), 500)}"] if asked and asked.feedback else []
    because += [f"thought: {plain(decision.thought, 1000)}"] if decision.thought else []
    because += [change_words(change) for change in ([own] if own else []) + lines]
    by = f"with the plan: {decision.what}" if decision.created else f"by an edit: {decision.what}"
    return PartEvent(
        seq=decision.seq, at=decision.at, actor=decision.actor, generation=decision.generation, text=f"{verb} {by}", because=tuple(because)
    )


def task_status_words(history: ConstellationHistory, task_id: str) -> str:
    """Return the current status of a task in words, with the reason."""
    task = history.constellation.tasks.get(task_id)
    if task is None:
        return "no longer in the plan"
    if words := _queue_or_items(history, task):
        return words
    lines = history.constellation.lines_in(task.item_of or task_id)
    evaluated = [
        f"{line.line_id} is {'satisfied' if line.verdict.satisfied else f'not satisfied: {line.verdict.reason}'}"
        for line in lines
        if line.verdict
    ]
    waits = [f"{line.source} ({history.constellation.tasks[line.source].status})" for line in lines if line.verdict is None]
    match task.status:
        case TaskStatus.WAITING_DEPENDENCY:
            ends = {"on_failure": "runs if the run fails", "finally": "runs at the end of the run"}
            blocked = f"cannot start ({'; '.join(evaluated)}), but may still be edited" if lines else ends.get(task.role, "")
            return plain(f"waits for {', '.join(waits)}" if waits else blocked, 1000)
        case TaskStatus.PENDING:
            held = ", but held until a change of the plan is decided" if task_id in history.memory.held() else ""
            return "ready" + (held or (" when the run is resumed" if history.memory.paused else ""))
        case TaskStatus.RUNNING if isinstance(asked := history.spans[task.inquiry_id].effect if task.inquiry_id else None, AskPerson):
            return plain(f"waits for a person: {asked.prompt}", 1000)
        case _:
            because = task.error.words if task.error else "; ".join(evaluated) or "no dependencies"
            if task.join == "any" and task.attempts:
                because = "; ".join([*_admission_words(history, task), *([task.error.words] if task.error else evaluated)])
            if task.role != "task" and task.attempts:
                end = _end_words(history.memory)
                because = f"{end}; {because}" if task.error else end
            return plain(f"{task.status}: {because}", 1000)


def _queue_or_items(history: ConstellationHistory, task: TaskStar) -> str:
    """Return what a task waits for that is neither a dependency nor a person; an empty text for nothing."""
    if task.item_of and task.status is TaskStatus.WAITING_DEPENDENCY:
        return f"waits until fewer items of {plain(task.item_of)} are under way"
    if task.items is not None and task.status is TaskStatus.RUNNING:
        return f"waits for its items: {task_items_words(task)}"
    if task.wait is not None and task.status is TaskStatus.RUNNING:
        return place_of(task).strip("()")
    if task.task_id in history.queued_since():
        return f"queued: {plain(task.device)} performs other attempts"
    return ""


def _admission_words(history: ConstellationHistory, task: TaskStar) -> list[str]:
    """Return which dependency admitted a task with ``join: any``, and the tasks whose results it got."""
    tasks, lines = history.constellation.tasks, history.constellation.lines_in(task.task_id)
    met = [line for line in lines if line.verdict and line.verdict.satisfied]
    first = min(met, key=lambda line: tasks[line.source].ended_at, default=None)
    spans = [span.effect for span in history.spans.values()]
    got = next((it.sources for it in reversed(spans) if isinstance(it, Dispatch) and it.task_id == task.task_id), None)
    words = [f"admitted by {first.line_id}"] if first else []
    return [*words, f"got the results of {', '.join(got) or 'no task'}"] if got is not None else words


def _end_words(memory: ConstellationMemory) -> str:
    """Return why the handlers of a run have run: its outcome, and the reason."""
    ending = memory.concluding
    code, reason = (memory.code, memory.why) if memory.code or ending is None else (ending.code, ending.reason)
    outcome = code if code in ("finished", "cancelled") else "failed"
    return f"the run {'was ' if code == 'cancelled' else ''}{outcome}{f': {reason}' if reason else ''}"
