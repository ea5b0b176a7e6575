"""Commands for schedules: schedule add, list, next, pause, resume, remove, run, history."""

from __future__ import annotations

import asyncio
import datetime as dt
import json as json_text
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import msgspec
from cyclopts import Parameter

from asterism.app.bootstrap import FORMS, open_store, read_fleet
from asterism.app.settings import database_path, server_url
from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database, FleetFile, Json, RunFlags, ServerUrl, WhatToRun
from asterism.cli.output import console, local_time, put, put_line
from asterism.cli.plan_values import Values, texts_of, with_values
from asterism.cli.remote_commands import refuse_with_server
from asterism.cli.run_access import actor, connected, reading, remote_runs
from asterism.cli.served_runs import LOOK_S, follow_served, is_served
from asterism.constellation.machine.events import RunOptions
from asterism.constellation.model.parameters import missing_of
from asterism.constellation.python.early_check import check_without_fleet
from asterism.constellation.python.goal import Goal, absolute_name, fleet_for, goal_of, rehearse
from asterism.constellation.python.goal_process import LIMIT_S
from asterism.constellation.python.scheduled import at_due_time, check_goal
from asterism.devices.fleet.fleet_file import check_channels
from asterism.engine.kernel.permissions import ALL
from asterism.engine.ports.schedules import MAX_SCHEDULES, Firing, Missed, Overlap, Schedule
from asterism.engine.ports.store import Store
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
    if url := server_url(server, database):
        refuse_with_server(fleet=fleet)
        times: _Times = {"zone": zone or local_zone(), "overlap": overlap, "missed": missed}
        return asyncio.run(_add_remote(url, name or _name_of(what, goal), cron, goal, options=behaviour.options(), times=times))
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


class _Times(TypedDict):
    zone: str
    overlap: Overlap
    missed: Missed


async def _add_remote(url: str, name: str, cron: str, goal: Goal, *, options: RunOptions, times: _Times) -> int:
    async with remote_runs(url) as (app, _):
        added = await (await app.add_schedule(name, cron, goal, options, **times)).describe()
    put(f"schedule {added.name}: {plain(added.cron)} ({plain(added.zone)}); the first run starts {_local(added.next_at)}")
    return FINISHED


def show(*, server: ServerUrl = None, database: Database = None, json: Json = False) -> int:
    """List the schedules, with their next due times and their last runs."""
    return asyncio.run(_show(database, server, as_json=json))


async def _show(database: Path | None, server: str | None, *, as_json: bool) -> int:
    async with reading(database, server) as store:
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
    if url := server_url(server, database):
        async with remote_runs(url) as (app, store):
            schedule = await _found(store, name)
            return schedule, await app.schedule_of(schedule.name).next_times(count)
    async with reading(database) as store:
        schedule = await _found(store, name)
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

    async def printed(store: Store) -> None:
        schedule = await _found(store, name)
        firings = await store.firings(schedule.tenant, schedule.name, limit=limit)
        for it in firings:
            put(f"{_local(it.due_at)}  {await _result(store, it)}")
        if not firings:
            put(f"schedule {schedule.name} has not been due yet")

    return asyncio.run(_reading(database, server, printed))


def pause(name: Name, /, *, server: ServerUrl = None, database: Database = None) -> int:
    """Pause a schedule; its run that has started goes on."""
    if url := server_url(server, database):
        return asyncio.run(_change_remote(url, name, "pause", "is paused"))
    return asyncio.run(_changed(database, name, lambda it: msgspec.structs.replace(it, paused=True), "is paused"))


def resume(name: Name, /, *, server: ServerUrl = None, database: Database = None) -> int:
    """Resume a schedule; due times of the pause are not made up for."""
    if url := server_url(server, database):
        return asyncio.run(_change_remote(url, name, "resume", "is active"))
    return asyncio.run(_changed(database, name, lambda it: resumed(it, SystemClock().now()) if it.paused else it, "is active"))


def remove(name: Name, /, *, server: ServerUrl = None, database: Database = None) -> int:
    """Remove a schedule with its history; its runs stay."""

    async def removed(store: Store) -> None:
        schedule = await _found(store, name)
        await store.remove_schedule(schedule.tenant, schedule.name)
        put(f"schedule {schedule.name} is removed")

    return asyncio.run(_reading(database, server, removed))


def run(
    name: Name,
    /,
    *,
    follow: Annotated[bool, Parameter(negative=(), help="Show the run until it ends.")] = False,
    server: ServerUrl = None,
    database: Database = None,
) -> int:
    """Start a run of a schedule now, whatever it overlaps; a server starts it. The next due time stays."""
    if url := server_url(server, database):
        return asyncio.run(_run_remote(url, name, follow=follow))
    return asyncio.run(_run(name, database, follow=follow))


async def _run(name: str, database: Path | None, *, follow: bool) -> int:
    async with connected(database) as client:
        store, schedule = client.store, await _found(client.store, name)
        await check_goal(schedule, client.clock.now())
        firing = started(schedule, round(client.clock.now(), 3), actor())
        if not await store.replace_schedule(schedule, before=schedule, firings=[firing]):
            raise InvalidInput(f"schedule {schedule.name} was changed at the same time; try again")
        if not await is_served(store, ""):
            put(f"run {firing.run_id} starts with a server: asterism serve")
            return FINISHED
        put(f"run {firing.run_id}")
        return await _follow(client, firing) if follow else FINISHED


async def _run_remote(url: str, name: str, *, follow: bool) -> int:
    async with remote_runs(url) as (app, store):
        schedule = await _found(store, name)
        run_id = await app.schedule_of(schedule.name).run()
        put(f"run {run_id}")
        if not follow:
            return FINISHED
        due = (it for it in await store.firings(schedule.tenant, schedule.name, limit=100) if it.run_id == run_id)
        firing = next(due, None)
        if firing is None:
            raise _not_started(run_id, schedule.name)
        return await _follow(Client(store, SystemClock(), FORMS), firing)


async def _follow(client: Client, firing: Firing) -> int:
    if not await _is_submitted(client.store, firing):
        raise _not_started(firing.run_id, firing.schedule)
    return await follow_served(client, firing.run_id)


def _not_started(run_id: str, schedule: str) -> Refused:
    return Refused(f"run {run_id} was not started; see: asterism schedule history {schedule}")


async def _is_submitted(store: Store, firing: Firing) -> bool:
    """Wait until the run of a firing is submitted; return False if it cannot be, or no server does it in time."""
    for _ in range(round(LIMIT_S / LOOK_S)):
        found = await store.firings(firing.tenant, firing.schedule, limit=100)
        now = next((it for it in found if it.due_at == firing.due_at), None)
        if now is None or now.status != "due":
            return now is not None and now.status == "started"
        await asyncio.sleep(LOOK_S)
    return False


async def _changed(database: Path | None, name: str, change: Callable[[Schedule], Schedule], becomes: str) -> int:
    async def change_it(store: Store) -> None:
        schedule = await _found(store, name)
        if not await store.replace_schedule(change(schedule), before=schedule):
            raise InvalidInput(f"schedule {schedule.name} was changed at the same time; try again")
        put(f"schedule {schedule.name} {becomes}")

    return await _reading(database, "", change_it)


async def _change_remote(url: str, name: str, command: Literal["pause", "resume"], becomes: str) -> int:
    async with remote_runs(url) as (app, store):
        schedule = app.schedule_of((await _found(store, name)).name)
        await (schedule.pause() if command == "pause" else schedule.resume())
        put(f"schedule {schedule.name} {becomes}")
    return FINISHED


async def _reading(database: Path | None, server: str | None, work: Callable[[Store], Awaitable[None]]) -> int:
    async with reading(database, server) as store:
        await work(store)
    return FINISHED


async def _found(store: Store, name: str) -> Schedule:
    found = await store.schedules("", name=name)
    if not found:
        names = [it.name for it in await store.schedules("")]
        hint = did_you_mean(name, names) or (f"; there are {', '.join(names[:10])}" if names else "; there are none")
        raise InvalidInput(f"there is no schedule {name!r}{hint}")
    return found[0]


async def _result(store: Store, firing: Firing) -> str:
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
