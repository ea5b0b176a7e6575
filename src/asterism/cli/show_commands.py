"""Commands that show runs and their journals: runs, show, log, why."""

from __future__ import annotations

import asyncio
import json as json_text
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from asterism.app.settings import server_url
from asterism.cli.exit_codes import FINISHED
from asterism.cli.file_previews import previews_of
from asterism.cli.options import Database, Json, Mermaid, RunId, ServerUrl
from asterism.cli.output import console, json_line, local_time, put, put_line, put_paged
from asterism.cli.run_access import form_of, garbage_collection_off, read_run, runs_of
from asterism.constellation.view.graph import mermaid_flowchart
from asterism.engine.control.children import child_run_id
from asterism.engine.kernel.journal import JournalMismatch
from asterism.engine.kernel.packing import packer
from asterism.engine.ports.store import RunReader, RunRow
from asterism.engine.runtime import journal_stream
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.lookup import MAX_RUNS, find_run
from asterism.errors import InvalidInput, RunNotFound
from asterism.views.text.history import RunHistory, log_line, unread_history, why_lines
from asterism.views.text.runs import run_lines
from asterism.views.text.show import RunTree, read_tree, show_data, show_lines
from asterism.views.text.styled_line import StyledLine
from asterism.views.words import plain


def runs(
    *,
    limit: Annotated[int, Parameter(help="Maximum number of runs to list; the last line says how many there are.")] = 20,
    every: Annotated[bool, Parameter(name="--all", negative=(), help="Include child runs.")] = False,
    database: Database = None,
    server: ServerUrl = None,
    json: Json = False,
) -> int:
    """List the runs, newest first."""
    if limit < 1:
        raise InvalidInput(f"--limit must be at least 1, not {limit}")
    return asyncio.run(_runs(limit, database, server, roots_only=not every, as_json=json))


async def _runs(limit: int, database: Path | None, server: str | None, *, roots_only: bool, as_json: bool) -> int:
    async with runs_of(database, server) as opened:
        store = opened.store
        rows = await store.runs(limit=limit, roots_only=roots_only)
        there = len(await store.runs(limit=MAX_RUNS, roots_only=roots_only)) if len(rows) == limit and not as_json else len(rows)
    if as_json:
        put(json_text.dumps([msgspec.to_builtins(row) for row in rows], indent=2))
        return FINISHED
    out = console()
    for line in run_lines(rows, local_time, header=out.is_terminal):
        put_line(out, line)
    if there > len(rows):
        put_line(out, StyledLine(f"{len(rows)} of {there} runs; all of them: asterism runs --limit {there}", "dim"))
    if not rows:
        put("no runs yet")
    return FINISHED


def show(
    named: RunId,
    /,
    *,
    database: Database = None,
    server: ServerUrl = None,
    mermaid: Mermaid = False,
    no_pager: Annotated[bool, Parameter(negative=(), help="Print at once, also what is longer than the terminal.")] = False,
    plan: Annotated[bool, Parameter(name="--plan", negative=(), help="Print its plan, as a plan file for the current folder.")] = False,
    json: Json = False,
) -> int:
    """Show a run: what failed or waits, and what to do next; then its tasks, states, history, metrics and planning.

    At a terminal, what is longer than the screen is shown by $PAGER, unless NO_PAGER is set.
    """
    if mermaid + plan + json > 1:
        raise InvalidInput("--mermaid, --plan and --json exclude each other; choose one")
    if plan:
        if server_url(server, database):
            raise InvalidInput("--plan does not work with a server; its API has the plan in the entries of the run")
        from asterism.cli.plan_commands import plan_of_run  # noqa: PLC0415 - loads the planner

        put(asyncio.run(plan_of_run(named, database)))
        return FINISHED
    return asyncio.run(_show(named, database, server, as_mermaid=mermaid, as_json=json, paged=not no_pager))


async def _show(named: str, database: Path | None, server: str | None, *, as_mermaid: bool, as_json: bool, paged: bool) -> int:
    async with runs_of(database, server) as opened:
        store = opened.store
        row = await find_run(store, named)
        if as_mermaid:
            from asterism.constellation.python.resumption import check_constellation  # noqa: PLC0415 - loads the planner

            check_constellation(row)
        try:
            tree = await _read_tree(store, row)
        except JournalMismatch:  # its row still says whether it is stuck, and what to do
            for line in () if as_json else run_lines([row], local_time):
                put_line(console(), line)
            raise
        asked = await (store.inquiries(run_id=row.run_id) if row.parent else store.inquiries(root=row.run_id))
        inbox = await store.inbox([question.run_id for question in asked])
        previews = {} if as_mermaid or as_json else await previews_of(asked, opened, database)
        origin = await _origin_of(store, tree.history)
    now = SystemClock().now()
    if as_mermaid:
        put(mermaid_flowchart(tree.history.run.memory.constellation).rstrip())
    elif as_json:
        put(json_text.dumps(show_data(tree, now, asked=asked, origin=origin), indent=2))
    else:
        with garbage_collection_off():
            lines = list(show_lines(tree, now, local_time, asked=asked, inbox=inbox, previews=previews, origin=origin))
        put_paged(lines, paged=paged)
    return FINISHED


async def _read_tree(store: RunReader, row: RunRow) -> RunTree:
    """Read a run and the runs below it; of a child's tree, only its part."""
    tree = await store.runs(root=row.root, limit=MAX_RUNS)
    below = [it for it in tree if it.run_id == row.run_id or it.run_id.startswith(f"{row.run_id}.")]  # see child_run_id
    journals = [(it, await store.records(it.run_id)) for it in below]
    with garbage_collection_off():
        return read_tree(row.run_id, journals, form_of)


async def _origin_of(store: RunReader, history: RunHistory) -> RunHistory | None:
    """Return the history of the run that this one was forked from, if it still exists."""
    if history.forked is None:
        return None
    try:
        return (await read_run(store, await store.run(history.forked.origin)))[0]
    except RunNotFound:
        return None


def log(
    named: RunId,
    /,
    *,
    follow: Annotated[bool, Parameter(negative=(), help="Keep printing until the run ends.")] = False,
    after: Annotated[int, Parameter(help="Print only entries after this number.")] = 0,
    database: Database = None,
    server: ServerUrl = None,
    json: Json = False,
) -> int:
    """Print the journal of a run in words."""
    if after < 0:
        raise InvalidInput(f"--after must be the number of an entry, not {after}")
    return asyncio.run(_log(named, database, server, after, follow=follow, as_json=json))


async def _log(named: str, database: Path | None, server: str | None, after: int, *, follow: bool, as_json: bool) -> int:
    async with runs_of(database, server) as opened:
        store = opened.store
        row = await find_run(store, named)
        history = unread_history(form_of(row), row.run_id)
        unpack, out = packer(history.run.machine).unpack, console()
        async for records in journal_stream.follow(store, row.run_id, until_now=not follow):
            lines = history.read(map(unpack, records))
            if as_json:
                for record in records:
                    if record.seq > after:
                        put(json_line(record))
                continue
            for it in lines:
                if it.entry.seq > after:
                    number = StyledLine(f"{it.entry.seq:>5}  ", "dim").append_line(log_line(history, it, local_time))
                    put_line(out, number.append(f"  ({plain(it.entry.actor)})", "dim"))
    return FINISHED


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
    server: ServerUrl = None,
    json: Json = False,
) -> int:
    """Explain who added a task, what changed it since, and why it ran, failed, was skipped or waits."""
    return asyncio.run(_why(named, task_id, database, server, as_json=json))


async def _why(named: str, task_id: str, database: Path | None, server: str | None, *, as_json: bool) -> int:
    async with runs_of(database, server) as opened:
        row = await find_run(opened.store, named)
        history, lines = await read_run(opened.store, row)
    reasons = history.events_of(task_id, lines)
    if not reasons:
        known = ", ".join(list(history.part_status())[:10]) or "none yet"
        below = "".join(
            f"; the tasks of {plain(own)} are in run {child_run_id(effect)}" for effect, own in list(history.children.items())[:10]
        )
        raise InvalidInput(f"run {row.run_id} never had a {history.part_noun} {task_id!r}; it has {known}{below}")
    status = history.standing(task_id)
    if as_json:
        put(json_text.dumps({"task_id": task_id, "standing": status, "reasons": msgspec.to_builtins(reasons)}, indent=2))
        return FINISHED
    out = console()
    for line in why_lines(task_id, status, reasons, local_time):
        put_line(out, line)
    return FINISHED
