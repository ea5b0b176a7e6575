"""Command that says why: how one task came about, what changed it, and why it ran, failed, was skipped or still waits."""

from __future__ import annotations

import asyncio
import json as json_text
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.text import Text

from asterism.cli.codes import FINISHED
from asterism.cli.finding import machine_of, read_story, reading
from asterism.cli.options import Database, Json, RunId
from asterism.cli.output import console, put, put_line
from asterism.cli.stories.constellation_story import ConstellationStory
from asterism.cli.stories.story import HistoryLine
from asterism.cli.words import time_of_day
from asterism.constellation.task import TaskStatus
from asterism.errors import InvalidInput
from asterism.kernel.packing import packer
from asterism.machines.children import child_run_id
from asterism.machines.constellation_agent.events import Edited
from asterism.machines.flow_agent.events import HandlerEnded, RunningEntered
from asterism.machines.run_control import AskPerson
from asterism.runtime.lookup import find_run
from asterism.views.plan_history import PlanDecision, PlanHistory, change_words
from asterism.views.words import plain


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a task.

    Attributes:
        seq, at, actor: of the entry that says so.
        generation: of the constellation.
        text: what happened.
        because: why, line by line.
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
            help="Id of a task, also of one that was removed or belongs to an earlier plan; of a conversation, the name of a field.",
        ),
    ],
    /,
    *,
    database: Database = None,
    json: Json = False,
) -> int:
    """Say in words how a task came about, what changed it since, and why it ran, failed, was skipped, or waits."""
    return asyncio.run(_why(named, task_id, database, as_json=json))


async def _why(named: str, task_id: str, database: Path | None, *, as_json: bool) -> int:
    async with reading(database) as store:
        row = await find_run(store, named)
        story, records, happenings = await read_story(store, row)
    entries = [packer(machine_of(row)).unpack(record) for record in records]
    decisions = PlanHistory(machine_of(row), row.run_id).read(entries) if isinstance(story, ConstellationStory) else []
    reasons = reasons_for(task_id, decisions, happenings)
    if not reasons:
        known = ", ".join(list(story.standing())[:10]) or "none yet"
        below = "".join(
            f"; the tasks of {plain(own)} are in run {child_run_id(effect)}" for effect, own in list(story.children.items())[:10]
        )
        raise InvalidInput(f"run {row.run_id} has never had a {story.parts} {task_id!r}; it has {known}{below}")
    standing = standing_of(story, task_id) if isinstance(story, ConstellationStory) else story.standing().get(task_id, "it is past")
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


def reasons_for(task_id: str, decisions: list[PlanDecision], happenings: Iterable[HistoryLine]) -> list[Reason]:
    """What happened to a task, in order; empty if there never was one."""
    found = [reason for decision in decisions if (reason := _of_decision(task_id, decision))]
    found += _of_happenings(task_id, happenings, {decision.seq: decision.generation for decision in decisions})
    return sorted(found, key=lambda reason: reason.seq)


def _of_decision(task_id: str, decision: PlanDecision) -> Reason | None:
    own = next((change for change in decision.changed if change.part == "task" and change.id == task_id), None)
    lines = [change for change in decision.changed if change.part == "dependency" and task_id in change.ends]
    if own is None and not lines:
        return None
    verb = "its dependencies change"
    if own is not None:
        verb = "added" if own.before is None else "removed" if own.after is None else "changed"
    asked = decision.asked
    because = [f"the planner was asked about {', '.join(map(plain, decision.batch[:10]))}"] if decision.batch else []
    because += [f"because its last answer could not be taken: {plain(asked.feedback, 500)}"] if asked and asked.feedback else []
    because += [f"thought: {plain(decision.thought, 1000)}"] if decision.thought else []
    because += [change_words(change) for change in ([own] if own else []) + lines]
    by = f"with the plan: {decision.what}" if decision.created else f"by an edit: {decision.what}"
    return Reason(
        seq=decision.seq, at=decision.at, actor=decision.actor, generation=decision.generation, text=f"{verb} {by}", because=tuple(because)
    )


def _of_happenings(task_id: str, happenings: Iterable[HistoryLine], generations: dict[int, int]) -> Iterator[Reason]:
    generation = 0
    for happening in happenings:
        entry = happening.entry
        generation = max(generation, generations.get(entry.seq, 0))
        is_told = happening.weight == "event" and not isinstance(entry.event, Edited)  # a decision says that
        is_field = isinstance(entry.event, RunningEntered | HandlerEnded)  # what a conversation has taken from words
        if happening.task_id == task_id and (is_told or is_field):
            yield Reason(seq=entry.seq, at=entry.at, actor=entry.actor, generation=generation, text=happening.text)


def standing_of(story: ConstellationStory, task_id: str) -> str:
    """How a task stands now, and why."""
    task = story.constellation.tasks.get(task_id)
    if task is None:
        return "it is not in the plan any more"
    lines = story.constellation.lines_in(task_id)
    judged = [
        f"{line.line_id} is {'satisfied' if line.verdict.satisfied else f'not satisfied: {line.verdict.reason}'}"
        for line in lines
        if line.verdict
    ]
    waits = [f"{line.source} ({story.constellation.tasks[line.source].status})" for line in lines if line.verdict is None]
    match task.status:
        case TaskStatus.WAITING_DEPENDENCY:
            return plain(
                f"waits for {', '.join(waits)}" if waits else f"cannot start ({'; '.join(judged)}), and may still be changed", 1000
            )
        case TaskStatus.PENDING if task_id in story.memory.held():
            return "could start, and is held until a change of the plan is decided"
        case TaskStatus.PENDING:
            return "can start" + (", when the run goes on" if story.memory.paused else "")
        case TaskStatus.RUNNING if isinstance(asked := story.spans[task.inquiry_id].effect if task.inquiry_id else None, AskPerson):
            return plain(f"waits for a person: {asked.prompt}", 1000)
        case _:
            because = task.error.message if task.error else "; ".join(judged) or "it waited for nothing"
            return plain(f"{task.status}: {because}", 1000)
