"""The command loop run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from asterism.app.bootstrap import open_devices, open_runtime, open_store
from asterism.app.settings import database_path
from asterism.cli.foreground import Display
from asterism.cli.options import Database, Here, JsonEvents, ResultFile
from asterism.cli.run_access import actor, check_database
from asterism.cli.run_commands import begin
from asterism.cli.served_runs import is_served
from asterism.engine.kernel.run import Run
from asterism.errors import InvalidInput, Refused
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.python.definition import OrchestrationLoop, find_loop
from asterism.loop.python.models import open_supervisor_model
from asterism.views.words import plain


def run(
    named: Annotated[str, Parameter(name="LOOP", help="Definition of the loop: module:name, file.py:name, or file.toml.")],
    request: Annotated[str, Parameter(name="REQUEST", help="The request, in words.")],
    /,
    *,
    fleet: Annotated[
        Path | None, Parameter(name=["--fleet", "-f"], help="Fleet file, for workers that are constellations [default: no devices].")
    ] = None,
    database: Database = None,
    json: JsonEvents = False,
    result_file: ResultFile = None,
    wall_limit_s: Annotated[float | None, Parameter(help="Fail the run after this many seconds [default: the limit of the loop].")] = None,
    max_tokens: Annotated[
        int | None, Parameter(help="Fail the run when its models have used more than this many tokens [default: the limit of the loop].")
    ] = None,
    here: Here = False,
) -> int:
    """Run a request through a loop that is defined in Python or TOML."""
    if not request.strip():
        raise InvalidInput("the request is empty; describe the task in words")
    loop = find_loop(named, Path.cwd())
    given = {"wall_limit_s": wall_limit_s, "max_tokens": max_tokens}
    try:
        bounds = {name: value for name, value in given.items() if value is not None}
        loop.options = msgspec.convert({**msgspec.to_builtins(loop.options), **bounds}, type(loop.options))
    except msgspec.ValidationError as error:
        raise InvalidInput(f"invalid limit of the loop: {error}") from None
    fleet = fleet.absolute() if fleet else None
    return asyncio.run(_run(loop, named, request, fleet, database_path(database), how=Display(json, result_file=result_file), here=here))


async def _run(loop: OrchestrationLoop, named: str, request: str, fleet: Path | None, database: Path, *, how: Display, here: bool) -> int:
    await check_database(database)
    first = loop.submitted(request, definition=named, fleet_file=str(fleet or ""))
    try:  # a rehearsal: a loop that cannot run writes nothing
        Run(ORCHESTRATION_LOOP, "rehearsal").take(first, at=0.0, actor=actor())
    except Refused as error:
        raise InvalidInput(f"{named}: {error}") from None
    for model in [model for it in loop.family() for model in it.models]:  # also detects a missing API key
        async with open_supervisor_model(model):
            pass
    async with (
        open_devices(fleet, database) as (_, devices),
        open_store(database, create=True) as store,
        open_runtime(store, devices, database, fleet_file=fleet) as runtime,
    ):
        runtime.is_served = not here and await is_served(store, runtime.fleet_name)
        submitted = await runtime.submit(ORCHESTRATION_LOOP, first, title=plain(request), actor=actor())
        return await begin(runtime, submitted, how)
