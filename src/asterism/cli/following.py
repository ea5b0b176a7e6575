"""Command that asks for more after a run has ended: follow, the next round of its session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from asterism.bootstrap import open_planner
from asterism.cli.beginning import choice_of, first_of, fleet_file_of
from asterism.cli.checking import check, order_of, submission
from asterism.cli.driving import opened_devices
from asterism.cli.finding import check_planned, find_run, read_story, reading
from asterism.cli.options import Database, JsonEvents, OtherFleet, ResultFile, RunId
from asterism.cli.running import begin
from asterism.errors import InvalidInput
from asterism.machines.constellation_agent.earlier import MAX_KEPT, round_of
from asterism.settings import database_path


def follow(
    named: RunId,
    what: Annotated[str, Parameter(name="REQUEST_OR_PLANFILE", help="What is to be done next, in words; or a plan file.")],
    /,
    *,
    fleet: OtherFleet = None,
    database: Database = None,
    json: JsonEvents = False,
    result_file: ResultFile = None,
) -> int:
    """Run a request as the next round of a run's session: the planner knows what came before; fleet, model and options are the same."""
    return asyncio.run(_follow(named, what, fleet, database, as_json=json, result_file=result_file))


async def _follow(named: str, what: str, fleet_file: Path | None, database: Path | None, *, as_json: bool, result_file: Path | None) -> int:
    order = order_of(what)
    path = database_path(database)
    async with reading(database) as store:
        row = await find_run(store, named)
        check_planned(row)
        if row.status != "ended":
            raise InvalidInput(f"run {row.run} has not ended; what follows it needs its results. Go on with: asterism resume {row.run}")
        before = await first_of(store, row)
        file = fleet_file or fleet_file_of(before, row)
        if file is None:
            raise InvalidInput(f"run {row.run} was started without a fleet; give one with --fleet")
        story, _, _ = await read_story(store, row)
        memory = story.run.memory
        earlier = (*memory.earlier, round_of(row.run, memory))[-MAX_KEPT:]
        choice = choice_of(before)
        async with open_planner(choice) as planner, opened_devices(file, path) as (fleet, devices):
            if order.given is not None or choice is None:
                check(order, fleet)
            first = msgspec.structs.replace(submission(order, fleet, file, memory.options, choice), earlier=earlier)
            session = row.session or row.run
            return await begin(
                store, devices, path, first, title=order.title, planner=planner, session=session, as_json=as_json, result_file=result_file
            )
