"""Follow a run that a server drives; Ctrl-C stops the following, and never the run."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from asterism.app.bootstrap import open_store
from asterism.cli.exit_codes import INTERRUPTED, WAITING
from asterism.cli.foreground import AS_LINES, Display, drive_shown, exit_code_of, print_end
from asterism.cli.output import local_time, message, put
from asterism.engine.kernel.journal import version_of
from asterism.engine.ports.store import RunRow, Store
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.runs import Runs
from asterism.engine.runtime.runtime import RESERVED_S
from asterism.errors import InvalidInput, RunOwned, StoreUnavailable
from asterism.views.text.runs import stuck_words


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


async def follow_served(runs: Runs, root: str, how: Display = AS_LINES) -> int:
    """Show a run until it ends, or waits for a person or a repair; return the exit code."""
    history, row = await drive_shown(runs, root, how)
    if row is None:
        put(f"run {root} goes on in the server; follow it with: asterism log {root} --follow")
        return INTERRUPTED
    if stuck := stuck_words(row, local_time):
        put(message(f"stuck: {stuck}"))
        put(f"the server tries again by itself; to try now: asterism resume {root}")
        return WAITING
    await print_end(runs.store, history, row, how)
    return exit_code_of(row)
