"""The command that shows the servers of a database and their work: status."""

from __future__ import annotations

import asyncio
import json as json_text
from collections.abc import Iterator
from pathlib import Path

import msgspec

from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database, Json, ServerUrl
from asterism.cli.output import console, local_time, put, put_line
from asterism.cli.run_access import runs_of
from asterism.engine.ports.store import WorkKind
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.database_status import DatabaseStatus, read_status
from asterism.views.text.runs import MINUTE, stuck_words
from asterism.views.text.styled_line import StyledLine
from asterism.views.words import count, plain

_WORDS: dict[WorkKind, str] = {
    "driven": "driven",
    "due": "due",
    "stuck": "stuck",
    "waiting": "waiting",
    "paused": "paused",
    "later": "due later",
    "idle": "driven by nobody",
}
_LISTED: dict[WorkKind, str] = {"stuck": "red", "due": "yellow", "driven": "cyan", "waiting": "magenta"}
_LABEL = 10


def status(*, database: Database = None, server: ServerUrl = None, json: Json = False) -> int:
    """Show the servers of a database, and what is driven, due, stuck or waiting.

    Of each kind, the three runs are listed whose last entries are the oldest.
    """
    found = asyncio.run(_status(database, server))
    if json:
        put(json_text.dumps(msgspec.to_builtins(found), indent=2))
        return FINISHED
    out = console()
    for line in lines_of(found):
        put_line(out, line)
    return FINISHED


async def _status(database: Path | None, server: str | None) -> DatabaseStatus:
    async with runs_of(database, server) as runs:
        return await (read_status(runs.store, SystemClock().now()) if isinstance(runs, Client) else runs.status())


def lines_of(found: DatabaseStatus) -> Iterator[StyledLine]:
    """Return the lines that show the state of a database."""
    for it in found.processes:
        line = StyledLine(f"{'server' if it.serves else 'process':<{_LABEL}}{plain(it.description)}, ", fixed=True)
        line.append(f"drives {count(found.work.driven_by.get(it.description, 0), 'run')}", "cyan")
        yield line.append(f", since {local_time(it.since, MINUTE)}" if it.since else "", "dim")
        details = (it.version and f"version {it.version}", it.fleet and f"fleet {it.fleet}", it.url)
        if words := ", ".join(plain(word) for word in details if word):
            yield StyledLine(f"{'':<{_LABEL}}{words}", "dim", fixed=True)
    if not any(it.serves for it in found.processes):
        yield StyledLine(f"{'server':<{_LABEL}}none runs; start one with: asterism serve", "yellow", fixed=True)
    numbers = [f"{number} {words}" for kind, words in _WORDS.items() if (number := found.work.counts.get(kind, 0))]
    yield StyledLine(f"{'runs':<{_LABEL}}{', '.join(numbers) or 'none is unfinished'}", fixed=True)
    served = {it.fleet for it in found.processes if it.serves}
    for kind, style in _LISTED.items():
        rows = found.runs.get(kind, [])
        for row in rows:
            line = StyledLine(f"{kind:<{_LABEL}}", style, fixed=True).append(f"{plain(row.run_id)}  ")
            yield line.append(f"{local_time(row.updated_at, MINUTE)}  ", "dim").append(plain(row.title, 100))
            if stuck := stuck_words(row, local_time):
                yield StyledLine(f"{'':<{_LABEL}}{stuck}", "red", fixed=True)
            elif kind == "due" and row.fleet and row.fleet not in served:
                needs = f"no server serves its fleet, {plain(row.fleet, 300)}; use: asterism serve --fleet FILE"
                yield StyledLine(f"{'':<{_LABEL}}{needs}", "yellow", fixed=True)
        if rows and (more := found.work.counts.get(kind, 0) - len(rows)) > 0:
            yield StyledLine(f"{'':<{_LABEL}}and {more} more", "dim", fixed=True)
    for schedule in found.schedules:
        yield StyledLine(f"{'next':<{_LABEL}}{local_time(schedule.next_at, MINUTE)}  {plain(schedule.name)}", fixed=True)
        if schedule.problem:
            yield StyledLine(f"{'':<{_LABEL}}last run not started: {plain(schedule.problem, 300)}", "red", fixed=True)
    work = found.work
    messages = ((work.unsent, "unsent"), (work.failed, "failed"), (work.unrouted, "without a channel"))
    if numbers := [f"{number} {words}" for number, words in messages if number]:
        yield StyledLine(f"{'messages':<{_LABEL}}{', '.join(numbers)}", fixed=True).append(
            f" ({plain(work.error)})" if work.error else "", "red"
        )
