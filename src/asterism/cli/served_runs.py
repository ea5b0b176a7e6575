"""Follow a run that a server drives; Ctrl-C stops the following, and never the run."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from asterism.app.bootstrap import open_store
from asterism.cli.exit_codes import INTERRUPTED, WAITING
from asterism.cli.foreground import AS_LINES, Display, JournalPrinter, exit_code_of, print_end, reporter_for
from asterism.cli.output import local_time, message, put
from asterism.cli.questions import Questions, can_ask
from asterism.cli.run_access import form_of
from asterism.engine.kernel.journal import version_of
from asterism.engine.ports.store import RunRow, Store
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.runs import Runs
from asterism.engine.runtime.runtime import RESERVED_S, Runtime
from asterism.errors import InvalidInput, RunOwned, StoreUnavailable
from asterism.views.text.history import unread_history
from asterism.views.text.runs import stuck_words

LOOK_S = 0.2
"""Seconds between two looks at the row of a run."""


async def is_served(store: Store, fleet_name: str) -> bool:
    """Return True if a live server drives the runs of a fleet, or, without a name, runs that need none."""
    return any(it.serves and fleet_name in ("", it.fleet) for it in await store.list_processes())


async def served_fleet(database: Path) -> Path | None:
    """Return the fleet file of the servers of a database; None if no server has one.

    Raises:
        InvalidInput: the servers have several.
    """
    with contextlib.suppress(StoreUnavailable):  # no database yet, or one that fails later with its reason
        async with open_store(database, create=False) as store:
            files = sorted({it.fleet_file for it in await store.list_processes() if it.serves and it.fleet_file})
        if len(files) > 1:
            raise InvalidInput(f"servers of this database have {len(files)} fleets; choose one with --fleet: {', '.join(files)}")
        return Path(files[0]) if files else None
    return None


async def make_due(client: Client, root: RunRow) -> None:
    """Make a run that nobody drives due at once."""
    with contextlib.suppress(RunOwned):  # the server has taken it
        epoch = await client.store.acquire(root.run_id, newest=version_of(client.form_of(root).machine))
        await client.store.release(root.run_id, epoch, force=True)


@contextlib.asynccontextmanager
async def reserved(client: Client, root: RunRow, *, here: bool) -> AsyncIterator[None]:
    """Write to a run that this command is to drive (``here``), so that no server takes it for what is written.

    Raises:
        RunOwned: another process drives the run.
    """
    if not here:
        yield
        return
    epoch = await client.store.acquire(root.run_id, newest=version_of(client.form_of(root).machine))
    try:
        yield
    finally:
        await client.store.release(root.run_id, epoch, force=True, due_at=client.clock.now() + RESERVED_S)


async def follow_served(client: Runs, root: str, how: Display = AS_LINES) -> int:
    """Show a run until it ends, or waits for a person or a repair; return the exit code.

    At a terminal, its questions are asked.
    """
    row = await client.describe(root)
    reporter = reporter_for(how)
    printer = JournalPrinter(client.store, unread_history(form_of(row), root), reporter)
    await printer.read(silently=row.seq > 1)
    asking = client if can_ask() and not how.as_json and isinstance(client, Runtime) else None
    questions = Questions(asking, root, asyncio.Event(), printer.screen, printer.leave_screen) if asking else None
    try:
        is_left = await _followed(client, root, printer, questions)
        await printer.read()
    finally:
        reporter.close()
    row = await client.describe(root)
    if is_left:
        put(f"run {root} goes on in the server; follow it with: asterism log {root} --follow")
        return INTERRUPTED
    if stuck := stuck_words(row, local_time):
        put(message(f"stuck: {stuck}"))
        put(f"the server tries again by itself; to try now: asterism resume {root}")
        return WAITING
    await print_end(client.store, printer.history, row, how)
    return exit_code_of(row)


async def _followed(client: Runs, root: str, printer: JournalPrinter, questions: Questions | None) -> bool:
    """Follow a run until nothing more happens by itself; return True if Ctrl-C came first."""
    loop, interrupted = asyncio.get_running_loop(), asyncio.Event()
    news = asyncio.Event()

    def interrupt() -> None:
        if questions is None or not questions.leave():
            interrupted.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        async with asyncio.TaskGroup() as group:
            showing = group.create_task(printer.follow(news))
            waiting = group.create_task(interrupted.wait())
            settling = group.create_task(_settled(client, root, questions))
            await asyncio.wait([waiting, settling], return_when=asyncio.FIRST_COMPLETED)
            for task in (showing, waiting, settling):
                task.cancel()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
    return interrupted.is_set()


async def _settled(client: Runs, root: str, questions: Questions | None) -> None:
    """Return when a run has ended, or only a person can move it on, and no person here does."""
    while not await _rests(client, root) or (questions and await _has_asked(questions, client, root)):  # noqa: ASYNC110 - other processes write
        await asyncio.sleep(LOOK_S)


async def _rests(client: Runs, root: str) -> bool:
    row = await client.describe(root)
    if row.owner:
        return False
    if row.status == "ended":
        return True
    is_due = row.due_at is not None and row.due_at <= SystemClock().now()
    return not is_due and (row.problem != "" or row.status in ("waiting", "paused"))


async def _has_asked(questions: Questions, client: Runs, root: str) -> bool:
    """Ask the open questions of a run; return True if it may go on."""
    if (await client.describe(root)).status != "waiting":
        return False
    await questions.ask_open()
    return await questions.must_drive()
