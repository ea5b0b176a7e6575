"""Commands for schedules: schedule add, list, next, pause, resume, remove, run, history."""

from __future__ import annotations

import asyncio
import datetime as dt
import json as json_text
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from asterism.app.bootstrap import open_store, read_fleet
from asterism.app.settings import database_path, server_url
from asterism.cli.exit_codes import FINISHED
from asterism.cli.foreground import LOOK_S
from asterism.cli.options import Database, FleetFile, Json, RunFlags, ServerUrl, WhatToRun
from asterism.cli.output import console, local_time, put, put_line
from asterism.cli.plan_values import Values, texts_of, with_values
from asterism.cli.run_access import actor, refuse_with_server, remote_runs, runs_of
from asterism.cli.served_runs import follow_served, is_served
from asterism.constellation.machine.events import RunOptions
from asterism.constellation.model.parameters import missing_of
from asterism.constellation.python.early_check import check_without_fleet
from asterism.constellation.python.goal import Goal, absolute_name, fleet_for, goal_of, rehearse
from asterism.constellation.python.goal_process import LIMIT_S
from asterism.constellation.python.scheduled import at_due_time, check_goal
from asterism.devices.fleet.fleet_file import check_channels
from asterism.engine.kernel.permissions import ALL
from asterism.engine.ports.schedules import MAX_SCHEDULES, Firing, Missed, Overlap, Schedule
from asterism.engine.ports.store import RunReader
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock, local_zone, zone_of
from asterism.errors import InvalidInput, Refused, RunNotFound, did_you_mean
from asterism.service.schedules.cron import in_words, next_after, next_times
from asterism.service.schedules.firing import check_schedule, resumed, started
from asterism.views.text.styled_line import StyledLine
from asterism.views.words import plain
from asterism.words.planner.planner import OfflinePlanner

MINUTE = "%Y-%m-%d %H:%M"

Name = Annotated[str, Parameter(name="NAME", help="Name of the schedule.")]
Cron = Annotated[
    str,
    Parameter(
        name="CRON",
        help="Minute, hour, day, month and weekday, as in '0 2 * * *', or @hourly, @daily, @weekly, @monthly; "
        "or one time, as in 2026-12-01T08:00.",
    ),
]


def add(
    cron: Cron,
    what: WhatToRun,
    /,
    *,
    name: Annotated[str | None, Parameter(help="Name of the schedule [default: that of the file or the constellation].")] = None,
    zone: Annotated[str | None, Parameter(help="Time zone of CRON, as Europe/Berlin [default: the machine's].")] = None,
    overlap: Annotated[Overlap, Parameter(help="While the last run has not ended: skip the next one, or allow both.")] = "skip",
    missed: Annotated[Missed, Parameter(help="After a time without a server: run once for all that was missed, or skip it.")] = "once",
    fleet: FleetFile = None,
    server: ServerUrl = None,
    database: Database = None,
    values: Values = (),
    behaviour: RunFlags = RunFlags(),  # noqa: B008 - frozen
) -> int:
    """Add a schedule. `asterism serve` starts its runs; the file of the plan is read again for each of them.

    With --server, the server has the plan as it is now.
    """
    goal = with_values(goal_of(what), values)
    if goal.plan and (missing := missing_of(goal.plan.params, goal.params)):
        raise InvalidInput(f"the plan needs {', '.join(missing)}; give each with --set name=value")
    now = SystemClock().now()
    at_due_time(goal, zone or local_zone(), now)
    schedule = Schedule(
        name=name or _name_of(what, goal),
        cron=cron,
        zone=zone or local_zone(),
        what=absolute_name(what),
        params={name: _absolute(goal, name, text) for name, text in texts_of(values).items()},
        options=msgspec.to_builtins(behaviour.options()),
        overlap=overlap,
        missed=missed,
        next_at=0.0,
        created_at=now,
        actor=actor(),
        permissions=ALL,
    )
    if url := server_url(server, database):
        refuse_with_server(fleet=fleet)
        return asyncio.run(_add_remote(url, schedule, goal, behaviour.options()))
    check_schedule(schedule)
    check_channels(fleet, behaviour.notify)
    schedule = msgspec.structs.replace(schedule, next_at=next_after(cron, schedule.zone, now))
    return asyncio.run(_add(schedule, goal, fleet, database_path(database)))


async def _add(schedule: Schedule, goal: Goal, fleet: Path | None, database: Path) -> int:
    if fleet is None:
        check_without_fleet(goal)
    elif goal.plan is not None:
        await rehearse(goal, await fleet_for(goal, await read_fleet(fleet)), OfflinePlanner())
    async with open_store(database, create=True) as store:
        if len(await store.schedules()) >= MAX_SCHEDULES:
            raise InvalidInput(f"there are {MAX_SCHEDULES} schedules already; remove some")
        await store.add_schedule(schedule)
        served = await is_served(store, "")
    words = in_words(schedule.cron, schedule.zone)
    put(f"schedule {schedule.name}: {words} ({schedule.zone}); the first run starts {_local(schedule.next_at)}")
    if not served:
        put("no server runs now; start one with: asterism serve")
    return FINISHED


async def _add_remote(url: str, schedule: Schedule, goal: Goal, options: RunOptions) -> int:
    async with remote_runs(url) as app:
        handle = await app.add_schedule(
            schedule.name, schedule.cron, goal, options, zone=schedule.zone, overlap=schedule.overlap, missed=schedule.missed
        )
        added = await handle.describe()
    put(f"schedule {added.name}: {plain(added.cron)} ({plain(added.zone)}); the first run starts {_local(added.next_at)}")
    return FINISHED


def show(*, server: ServerUrl = None, database: Database = None, json: Json = False) -> int:
    """List the schedules, with their next due times and their last runs."""
    return asyncio.run(_show(database, server, as_json=json))


async def _show(database: Path | None, server: str | None, *, as_json: bool) -> int:
    async with runs_of(database, server) as runs:
        store = runs.store
        schedules = await store.schedules()
        last = {(it.tenant, it.schedule): it for it in await store.last_firings()}
    if as_json:
        put(json_text.dumps([msgspec.to_builtins(it) for it in schedules], indent=2))
        return FINISHED
    if not schedules:
        put("no schedules yet; add one with `asterism schedule add`")
        return FINISHED
    out = console()
    width, times = max(len(it.name) for it in schedules), max(len(it.cron) for it in schedules)
    put_line(out, StyledLine(f"{'NAME':<{width}}  {'CRON':<{times}}  {'NEXT':<16}  LAST", "dim", fixed=True))
    for it in schedules:
        line = StyledLine(f"{it.name:<{width}}  {plain(it.cron):<{times}}  ", fixed=True)
        line.append(f"{_next_words(it):<16}", "yellow" if it.paused else "")
        firing = last.get((it.tenant, it.name))
        line.append(f"  {_outcome(firing)}{firing.outcome and f': {firing.outcome}'}" if firing else "  not yet", "dim")
        put_line(out, line)
    return FINISHED


def _next_words(schedule: Schedule) -> str:
    if not schedule.paused:
        return _local(schedule.next_at)
    return "paused" if next_after(schedule.cron, schedule.zone, SystemClock().now()) else "over"


def upcoming(
    name: Name,
    /,
    *,
    count: Annotated[int, Parameter(help="Number of due times.")] = 5,
    server: ServerUrl = None,
    database: Database = None,
    json: Json = False,
) -> int:
    """Print the next due times of a schedule, in its time zone."""
    if not 1 <= count <= 1000:  # noqa: PLR2004 - a bound
        raise InvalidInput(f"--count must be from 1 to 1000, not {count}")
    schedule, times = asyncio.run(_upcoming(name, count, database, server))
    if json:
        put(json_text.dumps(times))
        return FINISHED
    for time in times:
        put(f"{dt.datetime.fromtimestamp(time, tz=zone_of(schedule.zone)):%a %Y-%m-%d %H:%M %Z}")
    return FINISHED


async def _upcoming(name: str, count: int, database: Path | None, server: str | None) -> tuple[Schedule, list[float]]:
    async with runs_of(database, server) as runs:
        schedule = await _found(runs.store, name)
        if not isinstance(runs, Client):
            return schedule, await runs.schedule_of(name).next_times(count)
    return schedule, next_times(schedule, count)


def history(
    name: Name,
    /,
    *,
    limit: Annotated[int, Parameter(help="Maximum number of due times.")] = 20,
    server: ServerUrl = None,
    database: Database = None,
) -> int:
    """List the past due times of a schedule, newest first, with their runs."""
    if limit < 1:
        raise InvalidInput(f"--limit must be at least 1, not {limit}")
    return asyncio.run(_history(name, limit, database, server))


async def _history(name: str, limit: int, database: Path | None, server: str | None) -> int:
    async with runs_of(database, server) as runs:
        schedule = await _found(runs.store, name)
        firings = await runs.store.firings(schedule.tenant, schedule.name, limit=limit)
        for it in firings:
            put(f"{_local(it.due_at)}  {await _result(runs.store, it)}")
        if not firings:
            put(f"schedule {schedule.name} has not been due yet")
    return FINISHED


def pause(name: Name, /, *, server: ServerUrl = None, database: Database = None) -> int:
    """Pause a schedule; its run that has started goes on."""
    return asyncio.run(_changed(name, "pause", "is paused", database, server))


def resume(name: Name, /, *, server: ServerUrl = None, database: Database = None) -> int:
    """Resume a schedule; due times of the pause are not made up for."""
    return asyncio.run(_changed(name, "resume", "is active", database, server))


def remove(name: Name, /, *, server: ServerUrl = None, database: Database = None) -> int:
    """Remove a schedule with its history; its runs stay."""
    return asyncio.run(_changed(name, "remove", "is removed", database, server))


def run(
    name: Name,
    /,
    *,
    follow: Annotated[bool, Parameter(negative=(), help="Show the run until it ends.")] = False,
    server: ServerUrl = None,
    database: Database = None,
) -> int:
    """Start a run of a schedule now, whatever it overlaps; a server starts it. The next due time stays."""
    return asyncio.run(_run(name, database, server, follow=follow))


async def _run(name: str, database: Path | None, server: str | None, *, follow: bool) -> int:
    async with runs_of(database, server) as runs:
        schedule = await _found(runs.store, name)
        run_id = await (_started(runs, schedule) if isinstance(runs, Client) else runs.schedule_of(schedule.name).run())
        if isinstance(runs, Client) and not await is_served(runs.store, ""):
            put(f"run {run_id} starts with a server: asterism serve")
            return FINISHED
        put(f"run {run_id}")
        if not follow:
            return FINISHED
        if not await _is_submitted(runs.store, schedule, run_id):
            raise Refused(f"run {run_id} was not started; see: asterism schedule history {schedule.name}")
        return await follow_served(runs, run_id)


async def _started(client: Client, schedule: Schedule) -> str:
    await check_goal(schedule, client.clock.now())
    firing = started(schedule, round(client.clock.now(), 3), actor())
    if not await client.store.replace_schedule(schedule, before=schedule, firings=[firing]):
        raise InvalidInput(f"schedule {schedule.name} was changed at the same time; try again")
    return firing.run_id


async def _is_submitted(store: RunReader, schedule: Schedule, run_id: str) -> bool:
    """Wait until a run that is due is submitted; return False if it cannot be, or no server does it in time."""
    for _ in range(round(LIMIT_S / LOOK_S)):
        firing = next((it for it in await store.firings(schedule.tenant, schedule.name, limit=100) if it.run_id == run_id), None)
        if firing is None or firing.status != "due":
            return firing is not None and firing.status == "started"
        await asyncio.sleep(LOOK_S)
    return False


async def _changed(
    name: str, command: Literal["pause", "resume", "remove"], becomes: str, database: Path | None, server: str | None
) -> int:
    async with runs_of(database, server) as runs:
        schedule = await _found(runs.store, name)
        if not isinstance(runs, Client):
            await getattr(runs.schedule_of(schedule.name), command)()
        elif command == "remove":
            await runs.store.remove_schedule(schedule.tenant, schedule.name)
        else:
            now = resumed(schedule, runs.clock.now()) if command == "resume" and schedule.paused else schedule
            now = msgspec.structs.replace(now, paused=command == "pause")
            if not await runs.store.replace_schedule(now, before=schedule):
                raise InvalidInput(f"schedule {schedule.name} was changed at the same time; try again")
        put(f"schedule {schedule.name} {becomes}")
    return FINISHED


async def _found(store: RunReader, name: str) -> Schedule:
    found = await store.schedules("", name=name)
    if not found:
        names = [it.name for it in await store.schedules("")]
        hint = did_you_mean(name, names) or (f"; there are {', '.join(names[:10])}" if names else "; there are none")
        raise InvalidInput(f"there is no schedule {name!r}{hint}")
    return found[0]


async def _result(store: RunReader, firing: Firing) -> str:
    if firing.status != "started":
        return _outcome(firing)
    try:
        row = await store.run(firing.run_id)
    except RunNotFound:
        return f"run {firing.run_id}: deleted"
    return f"run {firing.run_id}: {row.outcome or row.status}"


def _outcome(firing: Firing) -> str:
    if firing.status in ("started", "due"):
        return f"run {firing.run_id}" + ("" if firing.status == "started" else ", due")
    return f"{firing.status}: {plain(firing.reason)}"


def _local(at: float) -> str:
    return local_time(at, MINUTE)


def _name_of(what: str, goal: Goal) -> str:
    if goal.plan is None:
        raise InvalidInput("a schedule of a request in words needs a name: --name")
    _, colon, name = what.rpartition(":")
    return goal.plan.name or (name if colon else Path(what).stem)


def _absolute(goal: Goal, name: str, text: str) -> str:
    return str(Path(text).absolute()) if goal.plan and goal.plan.params[name].type == "file" else text
