"""Commands that show runs and their journals: runs, show, log."""

from __future__ import annotations

import asyncio
import json as json_text
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.text import Text

from asterism.cli.exit_codes import FINISHED
from asterism.cli.foreground import result_of
from asterism.cli.options import Database, Json, Mermaid, RunId
from asterism.cli.output import console, moment, put, put_line, time_of_day
from asterism.cli.rendering.constellation import ConstellationRenderer
from asterism.cli.rendering.graph import mermaid_flowchart
from asterism.cli.rendering.metrics import Metrics, TaskMetrics, measure
from asterism.cli.rendering.proposals import answer_line, answered_line, proposal_lines, subject_of
from asterism.cli.rendering.registry import differences, renderer_for
from asterism.cli.rendering.renderer import HistoryLine, RunRenderer
from asterism.cli.reporters import json_line, log_line
from asterism.cli.run_access import machine_of, pending_answers, plan_of_run, read_run, reading
from asterism.constellation.task import TaskStar, TaskStatus
from asterism.constellations.resumption import check_constellation
from asterism.errors import InvalidInput, RunNotFound
from asterism.kernel.journal import Record, state_history, time_per_state
from asterism.kernel.packing import packer
from asterism.machines.children import child_run_id
from asterism.machines.constellation_agent.memory import ConstellationMemory
from asterism.runtime import journal_stream
from asterism.runtime.clock import SystemClock
from asterism.runtime.lookup import MAX_RUNS, find_run
from asterism.runtime.ports.store import InboxRow, InquiryRow, RunRow, Store
from asterism.views.plan_history import PlanDecision, decision_words, decisions_of, usage_words
from asterism.views.words import count, duration, place_of, plain, preview

MAX_DRAWN = 400
"""Lines of the drawing at most."""
MAX_LISTED = 60
"""Tasks that are listed at most; of more, only those that did not complete at the first attempt."""


def runs(
    *,
    limit: Annotated[int, Parameter(help="Number of runs at most.")] = 20,
    every: Annotated[bool, Parameter(name="--all", negative=(), help="Include runs started by other runs.")] = False,
    database: Database = None,
    json: Json = False,
) -> int:
    """List the runs, newest first."""
    if limit < 1:
        raise InvalidInput(f"--limit must be at least 1, not {limit}")
    return asyncio.run(_runs(limit, database, roots_only=not every, as_json=json))


async def _runs(limit: int, database: Path | None, *, roots_only: bool, as_json: bool) -> int:
    async with reading(database) as store:
        rows = await store.runs(limit=limit, roots_only=roots_only)
    if as_json:
        put(json_text.dumps([msgspec.to_builtins(row) for row in rows], indent=2))
        return FINISHED
    out = console()
    states = {row.run_id: _status_words(row) for row in rows}
    width = max((len(words) for words, _ in states.values()), default=0)
    for row in rows:
        words, style = states[row.run_id]
        line = Text(f"{plain(row.run_id)}  ").append(f"{words:<{width}}", style).append(f"  {moment(row.created_at)}  ", "dim")
        line.append(plain(row.title, 100))
        put_line(
            out, line.append(f"  (session {plain(row.session)})" if row.session not in ("", row.run_id) and not row.parent else "", "dim")
        )
    if not rows:
        put("no runs yet")
    return FINISHED


def _status_words(row: RunRow) -> tuple[str, str]:
    """Return the status of a run in words, and their style."""
    if row.status == "ended":
        return row.outcome, {"finished": "green", "failed": "red"}.get(row.outcome, "yellow")
    if row.owner:
        return f"{'paused' if row.status == 'paused' else 'running'} in {plain(row.owner)}", "cyan"
    return {"paused": ("paused", "yellow"), "waiting": ("waiting for a person", "magenta")}.get(row.status, ("interrupted", "yellow"))


# -- show ------------------------------------------------------------------------------------------


class RunDetails(msgspec.Struct, frozen=True):
    """A run with the data that ``show`` prints.

    Attributes:
        row: row of the run.
        renderer: renderer that has read the whole journal.
        records: the journal.
        history: log lines of the journal.
        decisions: decisions about its constellation; empty for other machines.
        children: child runs by task, oldest first.
    """

    row: RunRow
    renderer: RunRenderer
    records: list[Record]
    history: list[HistoryLine]
    decisions: list[PlanDecision]
    children: dict[str, list[RunDetails]]


async def _read(store: Store, row: RunRow, tree: Sequence[RunRow]) -> RunDetails:
    renderer, records, history = await read_run(store, row)
    children: dict[str, list[RunDetails]] = {}
    started = {child_run_id(effect): task_id for effect, task_id in renderer.children.items()}
    for child in sorted((it for it in tree if it.parent == row.run_id), key=lambda it: it.created_at):
        children.setdefault(started.get(child.run_id, ""), []).append(await _read(store, child, tree))
    decisions = decisions_of(machine_of(row), row.run_id, records) if isinstance(renderer, ConstellationRenderer) else []
    return RunDetails(row, renderer, records, history, decisions, children)


def show(
    named: RunId,
    /,
    *,
    database: Database = None,
    mermaid: Mermaid = False,
    plan: Annotated[bool, Parameter(name="--plan", negative=(), help="Print its plan, as a plan file in the current folder.")] = False,
    json: Json = False,
) -> int:
    """Show a run: its plan, its states, the history of its tasks, metrics and planning."""
    if mermaid + plan + json > 1:
        raise InvalidInput("--mermaid, --plan and --json exclude each other; choose one")
    if plan:
        put(asyncio.run(plan_of_run(named, database)))
        return FINISHED
    return asyncio.run(_show(named, database, as_mermaid=mermaid, as_json=json))


async def _show(named: str, database: Path | None, *, as_mermaid: bool, as_json: bool) -> int:
    async with reading(database) as store:
        row = await find_run(store, named)
        if as_mermaid:
            check_constellation(row)
        shown = await _read(store, row, await store.runs(root=row.root, limit=MAX_RUNS))
        renderer = shown.renderer
        asked = await (store.inquiries(run_id=row.run_id) if row.parent else store.inquiries(root=row.run_id))
        answers = await pending_answers(store, asked)
        origin = await _origin_of(store, renderer)
    now = SystemClock().now()
    if as_mermaid:
        put(mermaid_flowchart(renderer.constellation).rstrip())
    elif as_json:
        data = _show_data(shown, now) | {"questions": [question.inquiry_id for question in asked]}
        if renderer.forked is not None:
            data["origin"] = {
                "run": renderer.forked.origin,
                "at": renderer.forked.seq,
                "differences": differences(renderer, origin) if origin else None,
            }
        put(json_text.dumps(data, indent=2))
    else:
        out = console()
        for line in (*_show_lines(shown, now=now), *_question_lines(asked, answers, row.root), *_origin_lines(renderer, origin)):
            put_line(out, line)
    return FINISHED


async def _origin_of(store: Store, renderer: RunRenderer) -> RunRenderer | None:
    """Return the renderer of the run that this one was forked from, if it still exists."""
    if renderer.forked is None:
        return None
    try:
        return (await read_run(store, await store.run(renderer.forked.origin)))[0]
    except RunNotFound:
        return None


def _origin_lines(renderer: RunRenderer, origin: RunRenderer | None) -> list[Text]:
    if renderer.forked is None:
        return []
    lines = [Text(), Text(f"forked from {plain(renderer.forked.origin)} at entry {renderer.forked.seq}", "bold")]
    if origin is None:
        return [*lines, Text("  that run is not in this database", "dim")]
    return [*lines, *(Text(f"  {line}") for line in differences(renderer, origin) or ["no differences"])]


def _show_data(shown: RunDetails, now: float) -> dict[str, Any]:
    row, renderer, records = shown.row, shown.renderer, shown.records
    tasked = renderer if isinstance(renderer, ConstellationRenderer) else None
    return {
        **result_of(renderer, row),
        "title": row.title,
        "actor": row.actor,
        "owner": row.owner,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "states": state_history(records, **({"constellation_id": tasked.constellation.constellation_id} if tasked else {})),
        "time_per_state": time_per_state(records, renderer.until(now)),
        **(_constellation_data(tasked, shown.decisions, now) if tasked else {}),
        "children": [{"task_id": task_id, **_show_data(child, now)} for task_id, runs in shown.children.items() for child in runs],
    }


def _constellation_data(renderer: ConstellationRenderer, decisions: list[PlanDecision], now: float) -> dict[str, Any]:
    memory = renderer.memory
    return {
        "constellation": renderer.constellation.to_dict(),
        "metrics": msgspec.to_builtins(measure(renderer, now)),
        "planning": msgspec.to_builtins(decisions),
        "usage": {"questions": memory.asks, "tokens": memory.used.tokens, **msgspec.to_builtins(memory.used)},
        "limit": memory.limit,
        "earlier": [earlier.get("run", "") for earlier in memory.previous_rounds],
    }


def _show_lines(shown: RunDetails, *, now: float) -> list[Text]:
    row, renderer, records = shown.row, shown.renderer, shown.records
    words, style = _status_words(row)
    wall_s = renderer.until(now) - renderer.first_at
    head = Text(f"run {plain(row.run_id)}  ", "bold").append(words, f"bold {style}").append(f"  {row.state}")
    lines = [head, Text(plain(row.title)), Text(f"started by {plain(row.actor)}, {moment(row.created_at)}, {duration(wall_s)}", "dim")]
    if row.parent:
        lines.append(Text(f"part of run {plain(row.root)}", "dim"))
    if isinstance(renderer, ConstellationRenderer):
        lines += _session_lines(row, renderer.memory)
    if row.status == "ended":
        result = renderer.run.memory.result()
        lines += [Text(plain(result["summary"], 2000))] + ([Text(plain(result["reason"], 2000), "red")] if result.get("reason") else [])
    if picture := renderer.render(now, MAX_DRAWN):
        lines += [Text(), *picture]
    lines += [Text(), Text("states", "bold"), *_state_lines(records, renderer, now)]
    if not isinstance(renderer, ConstellationRenderer):
        return [*lines, Text(), *renderer.detail_lines(shown.history, now)]
    metrics = measure(renderer, now)
    lines += [Text(), Text("tasks", "bold"), *_task_lines(shown, metrics, now)]
    lines += [Text(), Text("metrics", "bold"), *_metric_lines(metrics)]
    return lines + _planning_lines(renderer.memory, shown.decisions)


def _session_lines(row: RunRow, memory: ConstellationMemory) -> list[Text]:
    """Return lines about the fleet of a run, its earlier rounds and the limit at which it has paused."""
    lines = [Text(f"fleet {plain(memory.fleet_file)}", "dim")] if memory.fleet_file else []
    if memory.previous_rounds:
        before = ", ".join(str(earlier.get("run", "")) for earlier in memory.previous_rounds)
        lines.append(Text(f"session {plain(row.session)}: follows {plain(before)}", "dim"))
    if memory.limit:
        lines.append(Text(f"paused at a limit: {plain(memory.limit)}", "yellow"))
    return lines


def _question_lines(asked: list[InquiryRow], answers: Mapping[str, InboxRow], root: str) -> list[Text]:
    lines: list[Text] = []
    for question in asked:
        lines += [Text(), Text(f"waits for a person: {plain(question.prompt, 1000)}", "magenta")]
        lines += [Text(f"  {line}") for line in proposal_lines(subject_of(question))]
        answer = answers.get(question.inquiry_id)
        lines.append(Text(f"  {answered_line(answer, f'asterism resume {root}') if answer else answer_line(question, root)}"))
    return lines


def _planning_lines(memory: ConstellationMemory, decisions: list[PlanDecision]) -> list[Text]:
    """Return lines about the decisions on the constellation; none for a submitted plan that was never changed."""
    listed = [decision for decision in decisions if decision.asked or decision.seq > 1]
    if not listed:
        return []
    lines = [Text(), Text("planning", "bold")]
    for decision in listed[:MAX_LISTED]:
        head, *more = decision_words(decision)
        lines.append(
            Text(f"  #{decision.seq} {time_of_day(decision.at)}  ", "dim").append(head).append(f"  ({plain(decision.actor)})", "dim")
        )
        lines += [Text(f"      {line}") for line in more]
    lines += [Text(f"  and {count(len(listed) - MAX_LISTED, 'decision')} more; --json has all", "dim")] if len(listed) > MAX_LISTED else []
    used = usage_words(memory.used)
    return [*lines, Text(f"  total: {count(memory.asks, 'question')}{f', {used}' if used else ''}")] if memory.asks else lines


def _state_lines(records: list[Record], renderer: RunRenderer, now: float) -> list[Text]:
    history = state_history(records)
    spent = time_per_state(records, renderer.until(now))
    steps = [f"{step['state']} {time_of_day(step['timestamp'])}" for step in history]
    times = [f"{state} {duration(seconds)}" for state, seconds in spent.items() if seconds > 0]
    return [Text(f"  {' → '.join(steps)}"), Text(f"  time in each: {', '.join(times) or 'none yet'}", "dim")]


def _task_lines(shown: RunDetails, metrics: Metrics, now: float) -> list[Text]:
    renderer = shown.renderer
    by_task: dict[str, list[HistoryLine]] = {}
    for it in shown.history:
        if it.part and it.weight == "event":
            by_task.setdefault(it.part, []).append(it)
    tasks = renderer.constellation.in_order()
    chosen = tasks if len(tasks) <= MAX_LISTED else [task for task in tasks if _is_remarkable(task)][:MAX_LISTED]
    lines: list[Text] = []
    for task in chosen:
        lines += _one_task(task, by_task.get(task.task_id, []), metrics.by_task[task.task_id])
        for child in shown.children.get(task.task_id, ()):
            words, style = _status_words(child.row)
            lines.append(Text(f"      run {plain(child.row.run_id)}  ", "dim").append(words, style))
            lines_below = _below(child, now)
            lines += [Text("      ").append_text(line) for line in lines_below]
    left = len(tasks) - len(chosen)
    return [*lines, Text(f"  and {count(left, 'task')} more; --json has all", "dim")] if left else lines


def _below(child: RunDetails, now: float) -> list[Text]:
    """Return the lines about the child run of a task."""
    if isinstance(child.renderer, ConstellationRenderer):
        return _task_lines(child, measure(child.renderer, now), now)
    return child.renderer.render(now, MAX_LISTED)


def _is_remarkable(task: TaskStar) -> bool:
    return task.attempts > 1 or task.status not in (TaskStatus.COMPLETED, TaskStatus.PENDING, TaskStatus.WAITING_DEPENDENCY)


def _one_task(task: TaskStar, history: list[HistoryLine], metrics: TaskMetrics) -> list[Text]:
    head = Text(f"  {plain(task.task_id)} ", "dim").append(plain(task.name), "bold")
    status = "waits for a person" if task.inquiry_id else str(task.status).lower()
    head.append(f"  {status}", "green" if task.status is TaskStatus.COMPLETED else "yellow")
    head.append(f"  skill {plain(task.resolved_skill)}" if task.resolved_skill else "", "dim").append(
        f" {'on ' if task.device else ''}{place_of(task)}", "dim"
    )
    numbers = [count(metrics.attempts, "attempt")] if metrics.attempts else []
    numbers += [f"worked {duration(metrics.worked_s)}"] if metrics.worked_s else []
    numbers += [f"waited {duration(metrics.waited_s)}"] if metrics.attempts else []
    numbers += [f"waited for people {duration(metrics.people_s)}"] if metrics.people_s else []
    head.append(f"  {', '.join(numbers)}" if numbers else "", "dim")
    lines = [head]
    if task.inputs:
        lines.append(Text(f"      inputs: {preview(task.inputs)}", "dim"))
    for it in history:
        line = Text(f"      {time_of_day(it.entry.at)}  ", "dim").append(it.text)
        lines.append(line.append(f"  ({plain(it.entry.actor)})", "dim"))
    return lines


def _metric_lines(metrics: Metrics) -> list[Text]:
    ratio = metrics.wall_over_critical_path
    over = f", {ratio:.2f} x the critical path" if ratio is not None else ""
    width = f"at most {metrics.most_at_once} at once, the plan allows {metrics.parallel_width}"
    people = f"{duration(metrics.people_s)} waiting for people"
    lines = [
        f"{count(metrics.tasks, 'task')}, {count(metrics.attempts, 'attempt')}; {width}",
        f"wall time {duration(metrics.wall_s)}{over}; worked {duration(metrics.worked_s)}",
        f"waited {duration(metrics.waited_s)} to start, {people}, {duration(metrics.planner_s)} for the planner",
    ]
    if metrics.critical_path:
        path = metrics.critical_path
        shown = path if len(path) <= 8 else [*path[:4], "…", *path[-3:]]  # noqa: PLR2004 - one line
        lines.append(f"critical path {duration(metrics.critical_path_s)}: {' → '.join(map(plain, shown))}")
    return [Text(f"  {line}") for line in lines]


# -- log -------------------------------------------------------------------------------------------


def log(
    named: RunId,
    /,
    *,
    follow: Annotated[bool, Parameter(negative=(), help="Keep printing until the run ends.")] = False,
    after: Annotated[int, Parameter(help="Print only entries after this number.")] = 0,
    database: Database = None,
    json: Json = False,
) -> int:
    """Print the journal of a run in words."""
    if after < 0:
        raise InvalidInput(f"--after must be the number of an entry, not {after}")
    return asyncio.run(_log(named, database, after, follow=follow, as_json=json))


async def _log(named: str, database: Path | None, after: int, *, follow: bool, as_json: bool) -> int:
    async with reading(database) as store:
        row = await find_run(store, named)
        renderer = renderer_for(machine_of(row), row.run_id)
        async for records in journal_stream.follow(store, row.run_id, until_now=not follow):
            _print_on(renderer, records, after, as_json=as_json)
    return FINISHED


def _print_on(renderer: RunRenderer, records: Sequence[Record], after: int, *, as_json: bool) -> None:
    history = renderer.read(map(packer(renderer.run.machine).unpack, records))
    if as_json:
        for record in records:
            if record.seq > after:
                put(json_line(record))
        return
    out = console()
    for it in history:
        if it.entry.seq > after:
            number = Text(f"{it.entry.seq:>5}  ", "dim")
            line = number.append_text(log_line(renderer, it)).append(f"  ({plain(it.entry.actor)})", "dim")
            put_line(out, line)
