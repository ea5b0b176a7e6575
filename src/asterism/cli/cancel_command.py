"""The command that cancels a run: cancel."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from asterism.app.bootstrap import open_driver_for, open_runtime
from asterism.app.settings import database_path, server_url
from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database, RunId, ServerUrl
from asterism.cli.output import message, put
from asterism.cli.remote_commands import cancel_remote
from asterism.cli.run_access import actor, connected, resume_hint
from asterism.cli.run_commands import drive_unowned, post_event, unfinished_run
from asterism.cli.served_runs import is_served
from asterism.constellation.python.resumption import has_finally_tasks, stops_elsewhere
from asterism.engine.control.run_control import Cancel
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import InvalidInput, MissingExtra


def cancel(
    named: RunId,
    /,
    *,
    reason: Annotated[str, Parameter(help="Reason, for the journal.")] = "",
    database: Database = None,
    server: ServerUrl = None,
) -> int:
    """Cancel a run: its work in progress is stopped, and nothing new starts. A cancelled run cannot be resumed."""
    if url := server_url(server, database):
        return asyncio.run(cancel_remote(url, named, reason))
    return asyncio.run(_cancel(named, reason, database))


async def _cancel(named: str, reason: str, database: Path | None) -> int:
    async with connected(database) as client:
        row = await unfinished_run(client, named)
        path = database_path(database)
        is_unowned, goes_on = not (await client.describe(row.root)).owner, await has_finally_tasks(client, row)
        if await is_served(client.store, row.fleet):
            await client.send(row.run_id, Cancel(reason=reason), actor=actor())
            put(_cancel_words(await client.store.run(row.run_id), goes_on=goes_on))
            return FINISHED
        if is_unowned and (row.parent or goes_on):  # the rest of its tree, and these, need devices
            await post_event(client, row, Cancel(reason=reason))
            return await drive_unowned(client, row, path, None, unpause=False)
        key, stops = client.clock.new_id(), is_unowned and await stops_elsewhere(client, row)
        if stops:  # before its devices are opened: a run that is to be cancelled may lack its folder and its secrets
            await client.post(row.run_id, Cancel(reason=reason), actor=actor(), key=key)
        async with _open_to_cancel(client, row, path, stops=stops) as runtime:
            await runtime.send(row.run_id, Cancel(reason=reason), actor=actor(), key=key)
        put(_cancel_words(await client.store.run(row.run_id), goes_on=goes_on))
        return FINISHED


@contextlib.asynccontextmanager
async def _open_to_cancel(client: Client, row: RunRow, path: Path, *, stops: bool) -> AsyncIterator[Runtime]:
    """Open a runtime that drives a run without an owner to its end; with devices only if it has to stop an attempt there."""
    async with contextlib.AsyncExitStack() as stack:
        runtime: Runtime | None = None
        if stops:
            put(f"stopping the work of run {row.run_id} on its devices; Ctrl-C leaves the rest to: {resume_hint(row)}")
            try:
                runtime = await stack.enter_async_context(open_driver_for(client, row, path))
            except (InvalidInput, MissingExtra) as error:
                put(message(f"nothing is stopped on the devices of run {row.run_id}, which cannot be opened: {error}"))
        if runtime is None:
            runtime = await stack.enter_async_context(open_runtime(client.store, {}, path))
        yield runtime


def _cancel_words(row: RunRow, *, goes_on: bool) -> str:
    """Return the effect of a cancel so far; ``goes_on``: the run has ``finally`` tasks."""
    if row.status == "ended":
        return f"run {row.run_id} is cancelled" if row.outcome == "cancelled" else f"run {row.run_id} has ended ({row.outcome})"
    rest = "its finally tasks run now; cancel it again to end it at once" if goes_on else "its process stops the work under way"
    return f"run {row.run_id} is being cancelled: {rest}"
