"""Command that asks for more after a run has ended: follow, the next round of its session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from asterism.bootstrap import open_devices, open_planner, open_runtime
from asterism.cli.finding import actor, connected
from asterism.cli.options import Database, JsonEvents, OtherFleet, ResultFile, RunId
from asterism.cli.running import begin
from asterism.constellations.goal import goal_of, rehearse
from asterism.constellations.resumption import first_of, fleet_file_of
from asterism.constellations.rounds import round_after, submit
from asterism.runtime.lookup import find_run
from asterism.settings import database_path
from asterism.views.words import plain


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
    goal = goal_of(what)
    path = database_path(database)
    async with connected(database) as client:
        row = await find_run(client.store, named)
        after = await round_after(client, row)
        file = fleet_file or fleet_file_of(await first_of(client, row), row)
        async with open_planner(after.model) as planner, open_devices(file, path) as (fleet, devices):
            if goal.plan is not None or after.model is None:
                await rehearse(goal, fleet, planner)
            async with open_runtime(client.store, devices, path, planner=planner, fleet_file=file) as runtime:
                goal = msgspec.structs.replace(goal, title=plain(goal.title))
                submitted = await submit(runtime, goal, after=after, actor=actor())
                return await begin(runtime, submitted, as_json=as_json, result_file=result_file)
