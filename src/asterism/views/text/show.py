"""A run in full, as ``asterism show`` prints it: lines of text, or JSON data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from asterism.engine.control.children import child_run_id
from asterism.engine.kernel.guards import Guards
from asterism.engine.kernel.journal import Record, check_whole, state_history, time_per_state
from asterism.engine.kernel.packing import packer
from asterism.engine.ports.store import InboxRow, InquiryRow, RunRow
from asterism.views.text.history import HistoryLine, RunHistory, differences, unread_history
from asterism.views.text.questions import answer_line, answered_line
from asterism.views.text.runs import status_words, stuck_words
from asterism.views.text.styled_line import DAYTIME, MOMENT, StyledLine, TimeFormat
from asterism.views.view import Shown
from asterism.views.words import duration, plain

MAX_DRAWN = 400
"""Lines of the drawing at most."""


class RunTree(NamedTuple):
    """A run with the runs below it, read to the end of their journals.

    Attributes:
        row: row of the run.
        records: its journal.
        history: its history.
        lines: its log lines.
        children: its child runs by part, oldest first.
    """

    row: RunRow
    records: Sequence[Record]
    history: RunHistory
    lines: list[HistoryLine]
    children: dict[str, list[RunTree]]


def read_tree(
    run_id: str,
    journals: Iterable[tuple[RunRow, Sequence[Record]]],
    form_of: Callable[[RunRow], Shown],
) -> RunTree:
    """Read a run and the runs below it.

    Args:
        run_id: id of the run.
        journals: its row and journal and those of the runs below it, as ``Client.export`` returns them; others are ignored.
        form_of: returns the form of a run, as ``Client.form_of`` does.

    Raises:
        JournalMismatch: a journal cannot be replayed, or ends before its row says.
    """
    found = {row.run_id: (row, records) for row, records in journals}
    below: dict[str, list[str]] = {}
    for row, _ in sorted(found.values(), key=lambda it: it[0].created_at):
        below.setdefault(row.parent, []).append(row.run_id)

    def read(run_id: str) -> RunTree:
        row, records = found[run_id]
        form = form_of(row)
        check_whole(run_id, row.seq, records[-1].seq if records else 0)
        history = unread_history(form, run_id)
        lines = history.read(map(packer(form.machine).unpack, records))
        started = {child_run_id(effect_id): part for effect_id, part in history.children.items()}
        children: dict[str, list[RunTree]] = {}
        for child in below.get(run_id, ()):
            children.setdefault(started.get(child, ""), []).append(read(child))
        return RunTree(row, records, history, lines, children)

    return read(run_id)


# -- as lines --------------------------------------------------------------------------------------


def show_lines(
    tree: RunTree,
    now: float,
    local_time: TimeFormat,
    *,
    asked: Sequence[InquiryRow] = (),
    inbox: Iterable[InboxRow] = (),
    previews: Mapping[str, Sequence[str]] = {},
    origin: RunHistory | None = None,
) -> Iterator[StyledLine]:
    """Yield the lines that ``asterism show`` prints.

    Args:
        tree: the run.
        now: seconds since the epoch.
        local_time: format of times.
        asked: open questions of the run and of the runs below it.
        inbox: answers to them that are not delivered yet.
        previews: lines about the files that they name, by question.
        origin: history of the run that this one was forked from; None if that run does not exist.
    """
    now = _until(tree, now)
    yield from _head_lines(tree, local_time)
    yield from _question_lines(tree, asked, pending_answers(inbox), previews)
    yield from _next_lines(tree, asked)
    yield from (StyledLine(), *_start_lines(tree, now, local_time))
    history = tree.history
    if picture := history.status_lines(now, MAX_DRAWN):
        yield from (StyledLine(), *picture)
    yield from (StyledLine(), StyledLine("states", "bold"), *_state_lines(tree, now, local_time))
    yield StyledLine()
    yield from history.detail_lines(tree.lines, now, local_time, _below(tree, now, local_time))
    yield from _origin_lines(history, origin)


def _is_interrupted(row: RunRow) -> bool:
    return row.status == "active" and not row.owner


def _until(tree: RunTree, now: float) -> float:
    """Return the time until which a run is measured: its last entry if it is interrupted, as nobody works then."""
    return tree.history.last_at if _is_interrupted(tree.row) else now


def _head_lines(tree: RunTree, local_time: TimeFormat) -> Iterator[StyledLine]:
    """Yield the status of a run, its title, and how it has ended."""
    row, history = tree.row, tree.history
    words, style = status_words(row)
    yield StyledLine(f"run {plain(row.run_id)}  ", "bold").append(words, f"bold {style}").append(f"  {row.state}")
    yield StyledLine(plain(row.title))
    if stuck := stuck_words(row, local_time):
        yield StyledLine(f"stuck: {stuck}", "red")
        yield StyledLine(f"a server tries it again by itself; to try now: asterism resume {plain(row.root)}", "dim")
    elif _is_interrupted(row):
        yield StyledLine(f"interrupted: no process has worked on it since {local_time(history.last_at, MOMENT)}", "yellow")
    if row.status == "ended":
        result = history.run.memory.result()
        if "summary" in result:  # a program's own machine may have none
            yield StyledLine(end_summary(result))
        if result.get("reason"):
            yield StyledLine(plain(result["reason"], 2000), "red")
        for words in result.get("still_running", ()):
            yield StyledLine(plain(words, 2000), "yellow")


def _start_lines(tree: RunTree, now: float, local_time: TimeFormat) -> Iterator[StyledLine]:
    """Yield lines about who started a run, when, and with what."""
    row, history = tree.row, tree.history
    wall_s = history.until(now) - history.first_at
    yield StyledLine(f"started by {plain(row.actor)}, {local_time(row.created_at, MOMENT)}, {duration(wall_s)}", "dim")
    if row.parent:
        yield StyledLine(f"part of run {plain(row.root)}", "dim")
    yield from (StyledLine(line, "dim") for line in guard_lines(history.run.memory.guards))
    yield from history.start_lines(row)


def guard_lines(guards: Guards) -> Iterator[str]:
    """Yield what takes an approval in a run, by whom it is guarded, and what an admin has lifted."""
    asking = [
        f"{device}/{skill}" if skill else device
        for device, guarded in guards.devices.items()
        for skill, guard in {"": guarded.every, **guarded.skills}.items()
        if guard.approval
    ]
    for words, names in (
        ("approval by the fleet", asking),
        ("approval by the plan", guards.of_plan),
        ("lifted", guards.lifted),
    ):
        if names:
            yield f"{words}: {plain(', '.join(names), 2000)}"
    if not guards.submitter_may_approve:
        yield "its submitter may not approve"


def end_summary(result: Mapping[str, Any]) -> str:
    """Return the summary of an ended run; where a reason follows, without the errors that it repeats."""
    summary = str(result["summary"])
    return plain(summary.partition("; ")[0] if result.get("reason") and "total_tasks" in result else summary, 2000)


def _next_lines(tree: RunTree, asked: Sequence[InquiryRow]) -> Iterator[StyledLine]:
    """Yield the commands that continue a run, or explain its failure; none for a run that needs none."""
    row, history = tree.row, tree.history
    root, run = plain(row.root), plain(row.run_id)
    if not history.has_commands:
        return  # only its program can continue it
    commands: list[tuple[str, str]] = []
    if row.status == "ended":
        commands = _failure_commands(tree) if row.outcome != "finished" else []
    elif row.owner:
        commands = [("follow", f"asterism log {run} --follow")]
    elif not asked:
        commands = [("continue", f"asterism resume {root}")]
    if commands:
        yield StyledLine()
    for what, command in commands:
        yield StyledLine(f"{what}: ", "dim").append(command)


def _failure_commands(tree: RunTree) -> list[tuple[str, str]]:
    """Return the commands that explain and retry the failed parts of an ended run, or of a plan that it started."""
    run = plain(tree.row.run_id)
    if part := tree.history.failed_part():
        explain = ("explain", f"asterism why {run} {plain(part)}")
        return [explain, ("run what failed again", f"asterism retry {run}")] if not tree.row.parent else [explain]
    if tree.history.retries:
        return []
    plans = [child for part in tree.children.values() for child in part if child.history.retries]
    failed = [plain(plan.row.run_id) for plan in plans if plan.row.outcome == "failed"]
    return [("run what failed again", f"asterism retry {failed[-1]}")] if failed else []


def _state_lines(tree: RunTree, now: float, local_time: TimeFormat) -> list[StyledLine]:
    spent = time_per_state(tree.records, tree.history.until(now))
    steps = [f"{step['state']} {local_time(step['timestamp'], DAYTIME)}" for step in state_history(tree.records)]
    times = [f"{state} {duration(seconds)}" for state, seconds in spent.items() if seconds > 0]
    return [StyledLine(f"  {' → '.join(steps)}"), StyledLine(f"  time in each: {', '.join(times) or 'none yet'}", "dim")]


def _below(tree: RunTree, now: float, local_time: TimeFormat) -> Callable[[str], Iterator[StyledLine]]:
    """Return a function that yields the lines about the child runs of a part."""

    def lines(part: str) -> Iterator[StyledLine]:
        for child in tree.children.get(part, ()):
            yield StyledLine(f"      run {plain(child.row.run_id)}  ", "dim").append(*status_words(child.row))
            below = child.history.nested_lines(child.lines, now, local_time, _below(child, now, local_time))
            yield from (StyledLine("      ").append_line(line) for line in below)

    return lines


def pending_answers(inbox: Iterable[InboxRow]) -> dict[str, InboxRow]:
    """Return the rows of an inbox by the id of the question that they answer."""
    return {str(row.key).partition("#")[0]: row for row in inbox}  # a key that was edited by hand may not be text


def _question_lines(
    tree: RunTree, asked: Sequence[InquiryRow], answers: Mapping[str, InboxRow], previews: Mapping[str, Sequence[str]]
) -> Iterator[StyledLine]:
    histories, root = dict(_histories(tree)), tree.row.root
    for question in asked:
        yield from (StyledLine(), StyledLine(f"waits for a person: {plain(question.prompt, 1000)}", "magenta"))
        subject = histories.get(question.run_id, tree.history).subject_lines(question)
        yield from (StyledLine(f"  {line}") for line in (*subject, *previews.get(question.inquiry_id, ())))
        answer = answers.get(question.inquiry_id)
        yield StyledLine(f"  {answered_line(answer, f'asterism resume {root}') if answer else answer_line(question, root)}")


def _histories(tree: RunTree) -> Iterator[tuple[str, RunHistory]]:
    yield tree.row.run_id, tree.history
    for children in tree.children.values():
        for child in children:
            yield from _histories(child)


def _origin_lines(history: RunHistory, origin: RunHistory | None) -> Iterator[StyledLine]:
    if history.forked is None:
        return
    yield from (StyledLine(), StyledLine(f"forked from {plain(history.forked.origin)} at entry {history.forked.seq}", "bold"))
    if origin is None:
        yield StyledLine("  that run is not in this database", "dim")
    else:
        yield from (StyledLine(f"  {line}") for line in differences(history, origin) or ["no differences"])


# -- as data ---------------------------------------------------------------------------------------


def result_data(history: RunHistory, row: RunRow) -> dict[str, Any]:
    """Return the result of a run as JSON data."""
    result = history.run.memory.result()
    run = {"run": row.run_id, "state": row.state, "outcome": row.outcome, "status": row.status, "result": result}
    return {**run, **history.result_fields()}


def show_data(tree: RunTree, now: float, *, asked: Sequence[InquiryRow] = (), origin: RunHistory | None = None) -> dict[str, Any]:
    """Return the JSON data that ``asterism show --json`` prints; the arguments are those of ``show_lines``."""
    data = _tree_data(tree, _until(tree, now)) | {"questions": [question.inquiry_id for question in asked]}
    if forked := tree.history.forked:
        found = differences(tree.history, origin) if origin else None
        data["origin"] = {"run": forked.origin, "at": forked.seq, "differences": found}
    return data


def _tree_data(tree: RunTree, now: float) -> dict[str, Any]:
    row, history = tree.row, tree.history
    return {
        **result_data(history, row),
        "title": row.title,
        "actor": row.actor,
        "owner": row.owner,
        **({"problem": row.problem, "tries": row.tries, "due_at": row.due_at} if row.problem else {}),
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "states": [],
        "time_per_state": time_per_state(tree.records, history.until(now)),
        "guards": msgspec.to_builtins(history.run.memory.guards),
        **history.data_fields(now, state_history(tree.records)),
        "children": [{"task_id": part, **_tree_data(child, now)} for part, runs in tree.children.items() for child in runs],
    }
