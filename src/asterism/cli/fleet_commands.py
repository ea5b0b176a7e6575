"""The command fleet show."""

from __future__ import annotations

import asyncio
import json as json_text
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from asterism.app.bootstrap import open_devices
from asterism.app.schemas import DEVICE_TABLES
from asterism.app.settings import database_path
from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database, Json
from asterism.cli.output import console, put, put_line
from asterism.cli.run_access import connected
from asterism.constellation.python.fleet_state import RunsKnowledge, answers_of, knowledge_of, states_of
from asterism.devices.dispatch.places import drains_of
from asterism.devices.fleet.fleet_file import read_tables
from asterism.engine.runtime.clock import SystemClock
from asterism.views.text.fleet import DeviceState, fleet_lines

DEFAULT_FILE = Path("fleet.toml")


def show(
    file: Annotated[Path, Parameter(name="FILE", help="The fleet file.")] = DEFAULT_FILE,
    /,
    *,
    no_connect: Annotated[
        bool, Parameter(name="--no-connect", negative=(), help="Do not connect to devices, import their skills or start their programs.")
    ] = False,
    database: Database = None,
    json: Json = False,
) -> int:
    """Show the devices of a fleet: health, load, last sign and skills. Asks each device, which has 20 s to answer."""
    now = SystemClock().now()
    states = asyncio.run(_states(file, database_path(database), now, connects=not no_connect))
    if json:
        put(json_text.dumps([msgspec.to_builtins(state) for state in states], indent=2))
        return FINISHED
    out = console()
    for line in fleet_lines(states, now):
        put_line(out, line)
    return FINISHED


async def _states(file: Path, database: Path, now: float, *, connects: bool) -> list[DeviceState]:
    entries = read_tables(file, DEVICE_TABLES)
    known = RunsKnowledge()
    if database.exists():  # noqa: ASYNC240 - one look
        async with connected(database) as client:
            known = await knowledge_of(client, file, now)
        known.draining = {name: drain for name, it in drains_of({}, file, database).items() if (drain := it.draining())}
    if not connects:
        return states_of(entries, None, {}, known, now)
    async with open_devices(file) as (_, devices):
        return states_of(entries, devices, await answers_of(devices), known, now)
