"""The command why: who added a task, what changed it, and why it ran, failed, was skipped or still waits."""

from __future__ import annotations

import asyncio
import json as json_text
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.text import Text

from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database, Json, RunId
from asterism.cli.output import console, put, put_line, time_of_day
from asterism.cli.rendering.constellation import ConstellationRenderer
from asterism.cli.rendering.renderer import HistoryLine
from asterism.cli.run_access import machine_of, read_run, reading
from asterism.constellation.task import TaskStatus
from asterism.errors import InvalidInput
from asterism.machines.children import child_run_id
from asterism.machines.constellation_agent.events import Edited
from asterism.machines.flow_agent.events import HandlerEnded, RunningEntered
from asterism.machines.run_control import AskPerson
from asterism.runtime.lookup import find_run
from asterism.views.plan_history import PlanDecision, change_words, decisions_of
from asterism.views.words import plain


class TaskEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event in the life of a task.

    Attributes:
        seq, at, actor: number, time and actor of the journal entry.
        generation: generation of the constellation.
        text: the event in words.
        because: the reasons, line by line.
    """

    seq: int
    at: float
    actor: str
    generation: int
    text: str
    because: tuple[str, ...] = ()


def why(
    named: RunId,
    task_id: Annotated[
        str,
        Parameter(
            name="TASK",
            help="Id of a task (also of a removed task, or of an earlier plan); for a conversation, the name of a field.",
        ),
    ],
    /,
    *,
    database: Database = None,
    json: Json = False,
) -> int:
    """Explain who added a task, what changed it since, and why it ran, failed, was skipped or waits."""
    return asyncio.run(_why(named, task_id, database, as_json=json))


async def _why(named: str, task_id: str, database: Path | None, *, as_json: bool) -> int:
    async with reading(database) as store:
        row = await find_run(store, named)
        renderer, records, history = await read_run(store, row)
    decisions = decisions_of(machine_of(row), row.run_id, records) if isinstance(renderer, ConstellationRenderer) else []
    reasons = task_events(task_id, decisions, history)
    if not reasons:
        known = ", ".join(list(renderer.part_status())[:10]) or "none yet"
        below = "".join(
            f"; the tasks of {plain(own)} are in run {child_run_id(effect)}" for effect, own in list(renderer.children.items())[:10]
        )
        raise InvalidInput(f"run {row.run_id} never had a {renderer.part_noun} {task_id!r}; it has {known}{below}")
    standing = (
        task_status_words(renderer, task_id)
        if isinstance(renderer, ConstellationRenderer)
        else renderer.part_status().get(task_id, "no longer part of the run")
    )
    if as_json:
        put(json_text.dumps({"task_id": task_id, "standing": standing, "reasons": msgspec.to_builtins(reasons)}, indent=2))
        return FINISHED
    out = console()
    put_line(out, Text(f"{plain(task_id)}: ", "bold").append(standing))
    generation = reasons[0].generation
    for reason in reasons:
        if reason.generation != generation:
            generation = reason.generation
            put_line(out, Text(f"  plan {generation + 1} of this run", "bold"))
        put_line(
            out, Text(f"  #{reason.seq} {time_of_day(reason.at)}  ", "dim").append(reason.text).append(f"  ({plain(reason.actor)})", "dim")
        )
        for line in reason.because:
            put_line(out, Text(f"      {line}"))
    return FINISHED


def task_events(task_id: str, decisions: list[PlanDecision], history: Iterable[HistoryLine]) -> list[TaskEvent]:
    """Return the events of a task, in order; empty if the task never existed."""
    found = [reason for decision in decisions if (reason := _of_decision(task_id, decision))]
    found += _of_history(task_id, history, {decision.seq: decision.generation for decision in decisions})
    return sorted(found, key=lambda reason: reason.seq)


def _of_decision(task_id: str, decision: PlanDecision) -> TaskEvent | None:
    own = next((change for change in decision.changed if change.part == "task" and change.id == task_id), None)
    lines = [change for change in decision.changed if change.part == "dependency" and task_id in change.ends]
    if own is None and not lines:
        return None
    verb = "its dependencies changed"
    if own is not None:
        verb = "added" if own.before is None else "removed" if own.after is None else "changed"
    asked = decision.asked
    because = [f"the planner was asked about {', '.join(map(plain, decision.batch[:10]))}"] if decision.batch else []
    because += [f"because its last answer was rejected: {plain(asked.feedback, 500)}"] if asked and asked.feedback else []
    because += [f"thought: {plain(decision.thought, 1000)}"] if decision.thought else []
    because += [change_words(change) for change in ([own] if own else []) + lines]
    by = f"with the plan: {decision.what}" if decision.created else f"by an edit: {decision.what}"
    return TaskEvent(
        seq=decision.seq, at=decision.at, actor=decision.actor, generation=decision.generation, text=f"{verb} {by}", because=tuple(because)
    )


def _of_history(task_id: str, history: Iterable[HistoryLine], generations: dict[int, int]) -> Iterator[TaskEvent]:
    generation = 0
    for it in history:
        entry = it.entry
        generation = max(generation, generations.get(entry.seq, 0))
        is_event = it.weight == "event" and not isinstance(entry.event, Edited)  # a decision covers that
        is_field = isinstance(entry.event, RunningEntered | HandlerEnded)  # sets fields of a conversation
        if it.part == task_id and (is_event or is_field):
            yield TaskEvent(seq=entry.seq, at=entry.at, actor=entry.actor, generation=generation, text=it.text)


def task_status_words(renderer: ConstellationRenderer, task_id: str) -> str:
    """Return the current status of a task in words, with the reason."""
    task = renderer.constellation.tasks.get(task_id)
    if task is None:
        return "no longer in the plan"
    lines = renderer.constellation.lines_in(task_id)
    evaluated = [
        f"{line.line_id} is {'satisfied' if line.verdict.satisfied else f'not satisfied: {line.verdict.reason}'}"
        for line in lines
        if line.verdict
    ]
    waits = [f"{line.source} ({renderer.constellation.tasks[line.source].status})" for line in lines if line.verdict is None]
    match task.status:
        case TaskStatus.WAITING_DEPENDENCY:
            return plain(
                f"waits for {', '.join(waits)}" if waits else f"cannot start ({'; '.join(evaluated)}), but may still be edited", 1000
            )
        case TaskStatus.PENDING if task_id in renderer.memory.held():
            return "ready, but held until a change of the plan is decided"
        case TaskStatus.PENDING:
            return "ready" + (" when the run is resumed" if renderer.memory.paused else "")
        case TaskStatus.RUNNING if isinstance(asked := renderer.spans[task.inquiry_id].effect if task.inquiry_id else None, AskPerson):
            return plain(f"waits for a person: {asked.prompt}", 1000)
        case _:
            because = task.error.message if task.error else "; ".join(evaluated) or "no dependencies"
            return plain(f"{task.status}: {because}", 1000)
