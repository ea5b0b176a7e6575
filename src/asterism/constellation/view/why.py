"""The reasons behind one task: who added it, what changed it, and why it ran or waits."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from asterism.constellation.machine.events import Dispatch
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.constellation.view.fan_out import task_items_words
from asterism.constellation.view.history import ConstellationHistory
from asterism.constellation.view.plan_history import PlanDecision, change_words
from asterism.engine.control.run_control import AskPerson
from asterism.views.text.why import PartEvent
from asterism.views.words import plain


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
