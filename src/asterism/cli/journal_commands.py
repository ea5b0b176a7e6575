"""Commands on whole journals: fork, export, import, prune, backup."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from asterism.app.bootstrap import connect, run_files
from asterism.app.settings import database_path, files_url, server_url
from asterism.cli.exit_codes import FINISHED
from asterism.cli.foreground import Display, write_atomically
from asterism.cli.options import Database, EveryItem, Here, JsonEvents, OtherFleet, RunId, ServerUrl
from asterism.cli.output import complain, local_time, put
from asterism.cli.run_access import actor, connected, form_of, garbage_collection_off, reading, refuse_with_server, runs_of
from asterism.cli.run_commands import drive_unowned
from asterism.cli.served_runs import follow_served
from asterism.console.export import LogTails, PageRun, machine_data, run_page
from asterism.engine.kernel.journal import check_whole
from asterism.engine.kernel.packing import packer
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import DAY_S, SystemClock
from asterism.engine.runtime.journal_file import journal_lines, read_export
from asterism.engine.runtime.log_stream import continued, follow_logs
from asterism.engine.runtime.lookup import find_run
from asterism.engine.runtime.retention import all_are_old
from asterism.engine.runtime.runtime import RESERVED_S
from asterism.errors import InvalidInput, Refused
from asterism.stores.backup import back_up
from asterism.views.text.styled_line import MOMENT
from asterism.views.view import unread_view
from asterism.views.words import count, plain

MEGABYTE = 1_000_000


def fork(
    named: RunId,
    /,
    *,
    at: Annotated[int, Parameter(help="Number of the last entry to copy, as `asterism log` numbers them.")],
    no_drive: Annotated[bool, Parameter(negative=(), help="Create the new run, but do not drive it.")] = False,
    fleet: OtherFleet = None,
    database: Database = None,
    server: ServerUrl = None,
    json: JsonEvents = False,
    every_item: EveryItem = False,
    here: Here = False,
) -> int:
    """Start a new run as a copy of another, up to an entry, and drive it. The other run does not change."""
    if server_url(server, database):
        refuse_with_server(fleet=fleet, here=here)
    return asyncio.run(_fork(named, at, fleet, database, Display(json, every_item), server=server, drive_on=not no_drive, here=here))


async def _fork(
    named: str, at: int, fleet: Path | None, database: Path | None, how: Display, *, server: str | None, drive_on: bool, here: bool
) -> int:
    async with runs_of(database, server) as client:
        origin = await find_run(client.store, named)
        if isinstance(client, Client):
            client.reserved_s = RESERVED_S if here or fleet else 0.0
        new = await client.fork(origin.run_id, at, actor=actor())
        if not how.as_json:
            put(f"run {new}  forked from {origin.run_id} at entry {at}\n")
        row = await client.describe(new)
        if not drive_on or row.status == "ended":
            return FINISHED
        if not isinstance(client, Client):
            return await follow_served(client, new, how)
        return await drive_unowned(client, row, database_path(database), fleet, how, here=here)


def export(
    named: RunId,
    file: Annotated[Path | None, Parameter(name="FILE", help="File to write; run.html is a page that shows the run in a browser.")] = None,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="The same as FILE [default: standard output].")] = None,
    no_logs: Annotated[bool, Parameter(negative=(), help="Leave out what the tasks have printed.")] = False,
    database: Database = None,
) -> int:
    """Export a run and its child runs to one file: their journals and logs, or a page for a browser if its name ends in .html."""
    if file is not None and output is not None:
        raise InvalidInput("name the file once: as FILE, or with --output")
    target = file or output
    as_page = target is not None and target.suffix.lower() in (".html", ".htm")
    row, text = asyncio.run(_page_of(named, database, logs=not no_logs) if as_page else _journal_of(named, database, logs=not no_logs))
    if target is None:
        print(text, end="")  # noqa: T201 - the output; an error must end the command
        return FINISHED
    write_atomically(target, text)
    put(f"run {row.run_id}: {row.seq} entries in {plain(target, 1000)}")
    return FINISHED


async def _journal_of(named: str, database: Path | None, *, logs: bool) -> tuple[RunRow, str]:
    async with connected(database) as client:
        row = await find_run(client.store, named)
        journals = await client.export(row.run_id)
        chunks = [chunk async for chunk in follow_logs(client.store, row.run_id, until_now=True)] if logs else []
        return row, "".join(journal_lines(journals, chunks))


async def _page_of(named: str, database: Path | None, *, logs: bool) -> tuple[RunRow, str]:
    async with connected(database) as client:
        row = await find_run(client.store, named)
        journals = await client.export(row.run_id)
        tails: dict[str, LogTails] = {}
        if logs:
            async for chunk in follow_logs(client.store, row.run_id, until_now=True):
                if chunk.key:
                    tails.setdefault(chunk.run_id, LogTails()).add(chunk.key, chunk.data, chunk.skipped)
    runs = []
    for it, records in journals:
        form = form_of(it)
        check_whole(it.run_id, it.seq, records[-1].seq if records else 0)
        with garbage_collection_off():
            deltas = unread_view(form, it.run_id).read(map(packer(form.machine).unpack, records))
        own = tails[it.run_id].logs() if it.run_id in tails else {}
        runs.append(PageRun(it.run_id, it.parent, machine_data(form.machine), deltas, own))
    return row, run_page(runs)


def import_journal(
    file: Annotated[Path, Parameter(name="FILE", help="File written by `asterism export`.")], /, *, database: Database = None
) -> int:
    """Import an exported run. The file is checked, and the run is replayed before it is written."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"not valid UTF-8 ({error})"
        raise InvalidInput(f"{file}: {why}") from None
    return asyncio.run(_import(file, text, database))


async def _import(file: Path, text: str, database: Path | None) -> int:
    path = database_path(database)
    try:
        journals, logs = read_export(io.StringIO(text))
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}") from None
    for row, _ in journals:
        form_of(row)  # refused before a database is created
    async with connect(path) as client:
        await client.import_journals(journals, actor=actor())
        await client.store.add_logs(continued(logs))
    root, entries = journals[0][0].run_id, sum(len(records) for _, records in journals)
    below = f" and {count(len(journals) - 1, 'child run')}" if len(journals) > 1 else ""
    put(f"run {root}{below}: {entries} entries imported; see: asterism show {root}")
    return FINISHED


def prune(
    *,
    older_than_days: Annotated[float | None, Parameter(help="Delete runs that ended more than this many days ago.")] = None,
    outcome: Annotated[
        tuple[Literal["finished", "failed", "cancelled"], ...],
        Parameter(negative=(), show_default=False, help="Delete only runs with this outcome; may be repeated."),
    ] = (),
    keep_mb: Annotated[
        float | None, Parameter(help="Delete the oldest ended runs until the database has at most this many megabytes.")
    ] = None,
    clock_is_right: Annotated[
        bool, Parameter(negative=(), help="Delete even if by the clock all runs are older than --older-than-days.")
    ] = False,
    database: Database = None,
) -> int:
    """Delete ended runs that the options choose, and reclaim space. An unfinished run is never deleted."""
    if older_than_days is None and keep_mb is None and not outcome:
        raise InvalidInput("choose what to delete: --older-than-days, --outcome or --keep-mb")
    for name, number in (("--older-than-days", older_than_days), ("--keep-mb", keep_mb)):
        if number is not None and not 0 <= number < float("inf"):
            raise InvalidInput(f"{name} must be 0 or more, not {number:g}")
    return asyncio.run(_prune(older_than_days, outcome, keep_mb, database, trusts_clock=clock_is_right))


async def _prune(
    older_than_days: float | None, outcomes: tuple[str, ...], keep_mb: float | None, database: Path | None, *, trusts_clock: bool
) -> int:
    now = SystemClock().now()
    before = None if older_than_days is None else now - older_than_days * DAY_S
    keep_bytes = None if keep_mb is None else round(min(keep_mb * MEGABYTE, sys.maxsize))
    async with reading(database) as store:
        if older_than_days is not None and not trusts_clock and await all_are_old(store, now, older_than_days * DAY_S):
            raise Refused(
                f"by the clock ({local_time(now, MOMENT)}) all runs are older than {older_than_days:g} days; nothing is deleted. "
                "If the clock is right, add --clock-is-right"
            )
        deleted = await store.prune(before=before, outcomes=outcomes, keep_bytes=keep_bytes)
        await run_files(store, database_path(database)).forget([])
    put(f"{count(deleted, 'run')} deleted")
    return FINISHED


def backup(
    file: Annotated[Path, Parameter(name="FILE", help="Database file to write; it must not exist.")], /, *, database: Database = None
) -> int:
    """Copy the database, with the files of its runs, while processes use it."""
    path, elsewhere = database_path(database), files_url()
    done = back_up(path, file, with_files=not elsewhere)
    files = f", and {count(done.files, 'file')} in {plain(file.name)}.files" if done.files else ""
    put(f"{plain(path, 1000)}: {done.bytes / MEGABYTE:.1f} MB in {plain(file, 1000)}{files}")
    if elsewhere:
        put("the files of its runs are in another storage, and not in this copy")
    if done.lost:
        complain(f"{count(done.lost, 'file')} of its runs cannot be copied: the contents are not beside the database")
    return FINISHED
