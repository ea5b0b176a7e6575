"""The command retry: failed tasks and items of a run again, in a new run if it has ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from asterism.app.settings import database_path
from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database, EveryItem, Here, JsonEvents, OtherFleet, RunId
from asterism.cli.output import put
from asterism.cli.run_access import actor, connected
from asterism.cli.run_commands import drive_unowned
from asterism.cli.served_runs import is_served, reserved
from asterism.constellation.machine.events import Retry
from asterism.constellation.python.retrying import retry_ended
from asterism.engine.runtime.lookup import find_run
from asterism.engine.runtime.runtime import RESERVED_S


def retry(
    named: RunId,
    /,
    *tasks: Annotated[str, Parameter(name="TASK", help="Id of a failed task, or of an item such as transform[3] [default: all].")],
    no_drive: Annotated[bool, Parameter(negative=(), help="Do not drive the run.")] = False,
    fleet: OtherFleet = None,
    database: Database = None,
    json: JsonEvents = False,
    every_item: EveryItem = False,
    here: Here = False,
) -> int:
    """Run failed and cancelled tasks again, and what was skipped because of them.

    A run that has ended does not change: a copy of it, with the results of its completed tasks, goes on.
    """
    return asyncio.run(_retry(named, tasks, fleet, database, drive_on=not no_drive, as_json=json, every_item=every_item, here=here))


async def _retry(
    named: str,
    tasks: tuple[str, ...],
    fleet: Path | None,
    database: Path | None,
    *,
    drive_on: bool,
    as_json: bool,
    every_item: bool,
    here: bool,
) -> int:
    async with connected(database) as client:
        row = await find_run(client.store, named)
        if row.status == "ended":
            client.reserved_s = RESERVED_S if here or fleet else 0.0
            new = await retry_ended(client, row.run_id, tasks, actor=actor())
            if not as_json:
                above = f"run {row.parent}, which started {row.run_id}, does not get the new result\n" if row.parent else ""
                put(f"run {new}  retries {row.run_id}\n{above}")
            row = await client.describe(new)
        else:
            async with reserved(client, await client.describe(row.root), here=here):
                await client.post(row.run_id, Retry(tasks=tasks), actor=actor(), key=client.clock.new_id())
        root = await client.describe(row.root)
        if not drive_on or (root.owner and not await is_served(client.store, root.fleet)):
            return FINISHED
        return await drive_unowned(client, row, database_path(database), fleet, as_json=as_json, every_item=every_item, here=here)
