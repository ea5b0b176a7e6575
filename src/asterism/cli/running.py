"""Commands that drive a run, or tell the process that drives it something: run, resume, pause, unpause, cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from asterism.bootstrap import MACHINES, check_database, open_minds, open_planner, open_runtime, open_store
from asterism.cli.beginning import choice_of, first_of, fleet_file_below, fleet_file_of
from asterism.cli.behaviour import Behaviour, MaxCost, MaxTokens, raised
from asterism.cli.checking import check, order_of, submission
from asterism.cli.codes import FAILED, FINISHED, INTERRUPTED, WAITING
from asterism.cli.driving import drive, opened_devices
from asterism.cli.finding import MAX_RUNS, actor, check_sendable, find_run, how_to_go_on, machine_of, read_story, reading
from asterism.cli.looping import check_definitions
from asterism.cli.options import (
    BackupModel,
    Database,
    FleetFile,
    JsonEvents,
    Model,
    OtherFleet,
    OtherModel,
    Record,
    ResultFile,
    RunId,
)
from asterism.cli.output import put
from asterism.cli.stories.story import Story
from asterism.cli.words import count, plain
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.task import TaskStar
from asterism.errors import InvalidInput, Refused, RunOwned, UnknownMachine
from asterism.kernel.machine import Event, kind_of
from asterism.machines.constellation_agent.events import RaiseLimits, RunOptions, Submitted
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.control import Cancel, Pause, Unpause
from asterism.machines.flow_agent.table import FLOW_AGENT
from asterism.planner.model_choice import ModelChoice
from asterism.runtime.ports.device import Device
from asterism.runtime.ports.planner import Planner
from asterism.runtime.ports.store import RunRow, Store
from asterism.settings import database_path, model_choice

WORST_FIRST = (INTERRUPTED, FAILED, WAITING, FINISHED)
"""Which exit code counts when several runs were driven."""


def run(
    what: Annotated[str, Parameter(name="REQUEST_OR_PLANFILE", help="What is to be done, in words; or a .json, .yaml or .yml plan file.")],
    /,
    *,
    fleet: FleetFile,
    database: Database = None,
    json: JsonEvents = False,
    result_file: ResultFile = None,
    model: Model = None,
    backup_model: BackupModel = None,
    record: Record = None,
    behaviour: Behaviour = Behaviour(),  # noqa: B008 - frozen
) -> int:
    """Run a request in words, or a plan file."""
    if result_file is not None and (result_file.is_dir() or not result_file.parent.is_dir()):
        what = "it is a folder" if result_file.is_dir() else f"there is no folder {result_file.parent}"
        raise InvalidInput(f"--result-file {result_file}: {what}")
    choice = model_choice(model, backup_model, record)
    if choice is None and behaviour.replan not in (None, "never"):
        raise InvalidInput(f"--replan {behaviour.replan} needs a model; name one with --model")
    options = behaviour.options("when_needed" if choice else "never")
    return asyncio.run(_run(what, fleet, database_path(database), options, choice, as_json=json, result_file=result_file))


async def _run(
    what: str,
    fleet_file: Path,
    database: Path,
    options: RunOptions,
    choice: ModelChoice | None,
    *,
    as_json: bool,
    result_file: Path | None,
) -> int:
    order = order_of(what)
    if order.given is not None and options.replan == "never":
        choice = None  # nobody will ask it
    await check_database(database)
    async with open_planner(choice) as planner, opened_devices(fleet_file, database) as (fleet, devices):
        if order.given is not None or choice is None:
            check(order, fleet)
        async with open_store(database, create=True) as store:
            first = submission(order, fleet, fleet_file, options, choice)
            return await begin(
                store, devices, database, first, title=order.title, planner=planner, as_json=as_json, result_file=result_file
            )


async def begin(
    store: Store,
    devices: Mapping[str, Device],
    database: Path,
    first: Submitted,
    *,
    title: str,
    planner: Planner,
    session: str = "",
    as_json: bool = False,
    result_file: Path | None = None,
) -> int:
    """Submit a run, and drive it."""
    async with open_runtime(store, {}, database) as runtime:
        submitted = await runtime.submit(CONSTELLATION_AGENT, first, title=plain(title), actor=actor(), session=session)
    if not as_json:
        put(f"run {submitted}\n")
    return await drive(store, devices, database, submitted, planner=planner, as_json=as_json, result_file=result_file)


def resume(
    named: Annotated[str | None, Parameter(name="RUN", help="Id of a run [default: every run that was interrupted]")] = None,
    /,
    *,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    fleet: OtherFleet = None,
    model: OtherModel = None,
    database: Database = None,
    json: JsonEvents = False,
    result_file: ResultFile = None,
) -> int:
    """Go on with a run that was paused, or whose process ended; with a higher limit, with one that has used what it may."""
    limits = raised(max_tokens, max_cost)
    choice = model_choice(model) if model else None
    if limits == RaiseLimits():
        return asyncio.run(_resume(named, fleet, database, choice, as_json=json, result_file=result_file))
    if named is None:
        raise InvalidInput("a higher limit is for one run; name it")
    return asyncio.run(_resume_with(limits, named, fleet, database, choice, as_json=json, result_file=result_file))


async def _resume_with(
    limits: RaiseLimits,
    named: str,
    fleet: Path | None,
    database: Path | None,
    choice: ModelChoice | None,
    *,
    as_json: bool,
    result_file: Path | None,
) -> int:
    """Raise the limits where the run is, or go on with it here."""
    async with reading(database) as store:
        row = await _unfinished(store, named)
        if row.owner:
            await _tell(store, row, limits, database)
            put(f"run {row.run} may use more now")
            return FINISHED
        story, _, _ = await read_story(store, row)
        story.run.take(limits, at=story.last_at, actor=actor())  # in rehearsal: refused here if it would be there
        await _tell(store, row, limits, database, wait=False)
    return await _resume(row.run, fleet, database, choice, as_json=as_json, result_file=result_file)


async def _resume(
    named: str | None, fleet: Path | None, database: Path | None, choice: ModelChoice | None, *, as_json: bool, result_file: Path | None
) -> int:
    async with reading(database) as store:
        rows = [await find_run(store, named)] if named is not None else await _interrupted(store)
        codes = []
        for row in rows:
            if row.status == "ended":
                raise Refused(f"run {row.run} has ended already ({row.outcome}); see it with `asterism show {row.run}`")
            if row.owner:
                raise RunOwned(row.run, row.owner)
            machine_of(row)
            if not as_json:
                put(f"run {row.run}  {plain(row.title, 100)}")
                put(f"it is a part of run {row.root}, which goes on\n" if row.parent else "")
            code = await take_up(store, row, database_path(database), fleet, choice=choice, as_json=as_json, result_file=result_file)
            codes.append(code)
            if code == INTERRUPTED:
                break
        return next((code for code in WORST_FIRST if code in codes), FINISHED)


async def _interrupted(store: Store) -> list[RunRow]:
    """The unfinished runs that nobody drives, oldest first; a paused one only if it is the only one."""
    unfinished = {row.run: row for row in reversed(await store.runs(limit=MAX_RUNS)) if row.status != "ended"}
    left = [row for row in unfinished.values() if not row.parent and not row.owner]
    foreign = {row.root: row for row in unfinished.values() if row.machine not in MACHINES}  # a program's own, which goes on with them
    for row in left:
        if row.run in foreign:
            put(f"left alone: {UnknownMachine(foreign[row.run].run, foreign[row.run].machine)}")
    left = [row for row in left if row.run not in foreign]
    letters = {unfinished[letter.run].root for letter in await store.inbox(list(unfinished))}
    paused = [row for row in left if row.status == "paused"]
    waiting = [row for row in left if row.status == "waiting" and row.run not in letters]
    active = [row for row in left if row.status == "active" or (row.status == "waiting" and row.run in letters)]
    if len(left) == 1:
        return left
    for row in paused:
        put(f"run {row.run} is paused; go on with: asterism resume {row.run}")
    if waiting:
        put(f"waiting for a person: {count(len(waiting), 'run')}; see: asterism inbox")
    if not left and not foreign:
        put("there is nothing to resume")
    return active


async def take_up(
    store: Store,
    row: RunRow,
    database: Path,
    fleet: Path | None,
    *,
    choice: ModelChoice | None = None,
    unpause: bool = True,
    as_json: bool = False,
    result_file: Path | None = None,
) -> int:
    """Drive a run that nobody owns, of a child its root; with ``unpause``, one that was paused on purpose goes on.

    Raises:
        RunOwned: somebody drives it; nothing was done.
    """
    paused = [row.run] if unpause and row.parent and row.status == "paused" else []
    row = await store.run(row.root)
    if row.owner:
        raise RunOwned(row.run, row.owner)
    first = await first_of(store, row)
    fleet_file = fleet or fleet_file_of(first, row) or await fleet_file_below(store, row)
    await check_definitions(store, row)
    choice = choice or (model_choice() if row.machine == FLOW_AGENT.name else choice_of(first))  # a conversation names none
    async with open_minds(choice) as minds, opened_devices(fleet_file, database) as (_, devices):
        story = await check_fleet_of(store, row, devices)
        if unpause and (row.status == "paused" or any(it.kind == kind_of(Pause) for it in await store.inbox([row.run]))):
            paused.append(row.run)
        for run in paused:
            async with open_runtime(store, {}, database) as runtime:
                await runtime.post(run, Unpause(), actor=actor(), key=runtime.clock.new_id())
        return await drive(
            store,
            devices,
            database,
            row.run,
            planner=minds.planner,
            extractor=minds.extractor,
            fleet_file=fleet_file,
            as_json=as_json,
            result_file=result_file,
            story=story,
        )


async def check_fleet_of(store: Store, row: RunRow, devices: Mapping[str, Device]) -> Story | None:
    """Refuse a fleet that cannot carry on what is left of the run and of its children, before it fails for it; the run's story so far."""
    stories: dict[str, Story] = {}
    for below in await store.runs(root=row.run, limit=MAX_RUNS):
        if below.status != "ended":
            stories[below.run], _, _ = await read_story(store, below)
            _check_tasks(below, stories[below.run].constellation.tasks.values(), devices)
    return stories.get(row.run)


def _check_tasks(row: RunRow, tasks: Iterable[TaskStar], devices: Mapping[str, Device]) -> None:
    for task in tasks:
        if task.constellation is not None:
            nested = TaskConstellation.from_dict(task.constellation)
            _check_tasks(row, () if task.settled else nested.tasks.values(), devices)
            continue
        device = devices.get(task.device)
        if not task.settled and (device is None or (task.resolved_skill and device.profile.skill(task.resolved_skill) is None)):
            what = f"no skill {task.resolved_skill!r} on device {task.device!r}" if device else f"no device {task.device!r}"
            raise InvalidInput(f"run {row.run}: this fleet has {what}, which task {task.task_id} needs; name another one with --fleet")


def pause(named: RunId, /, *, reason: Annotated[str, Parameter(help="For the journal.")] = "", database: Database = None) -> int:
    """Let a run start nothing new; what runs may end."""
    return asyncio.run(_pause(named, reason, database))


async def _pause(named: str, reason: str, database: Path | None) -> int:
    async with reading(database) as store:
        row = await _unfinished(store, named)
        if row.status == "paused":
            put(f"run {row.run} is paused already; go on with: {how_to_go_on(row)}")
        elif row.owner:
            await _tell(store, row, Pause(reason=reason), database)
            put(f"run {row.run} starts nothing new, and what is under way may end; go on with: {how_to_go_on(row)}")
        else:
            await _tell(store, row, Pause(reason=reason), database, wait=False)
            put(f"nobody drives run {row.run}; it will be paused if somebody answers its questions. Go on with: {how_to_go_on(row)}")
        return FINISHED


def unpause(named: RunId, /, *, fleet: OtherFleet = None, database: Database = None, json: JsonEvents = False) -> int:
    """Let a paused run start things again; if nobody drives it, drive it here, as resume does."""
    return asyncio.run(_unpause(named, fleet, database, as_json=json))


async def _unpause(named: str, fleet: Path | None, database: Path | None, *, as_json: bool) -> int:
    async with reading(database) as store:
        row = await _unfinished(store, named)
        if not row.owner:
            return await take_up(store, row, database_path(database), fleet, as_json=as_json)
        await _tell(store, row, Unpause(), database)
        put(f"run {row.run} goes on")
        return FINISHED


def cancel(named: RunId, /, *, reason: Annotated[str, Parameter(help="For the journal.")] = "", database: Database = None) -> int:
    """Stop a run for good: what runs is killed, nothing else is started."""
    return asyncio.run(_cancel(named, reason, database))


async def _cancel(named: str, reason: str, database: Path | None) -> int:
    async with reading(database) as store:
        row = await _unfinished(store, named)
        path = database_path(database)
        if row.parent and not (await store.run(row.root)).owner:  # the others of its tree go on, and need their devices
            await _tell(store, row, Cancel(reason=reason), database, wait=False)
            return await take_up(store, row, path, None, unpause=False)
        async with open_runtime(store, {}, path) as runtime:  # no device is needed to stop
            await runtime.send(row.run, Cancel(reason=reason), actor=actor())
        put(f"run {row.run} is cancelled")
        return FINISHED


async def _unfinished(store: Store, named: str) -> RunRow:
    row = await find_run(store, named)
    if row.status == "ended":
        raise Refused(f"run {row.run} has ended already ({row.outcome})")
    check_sendable(row)
    return row


async def _tell(store: Store, row: RunRow, event: Event, database: Path | None, *, wait: bool = True) -> None:
    async with open_runtime(store, {}, database_path(database)) as runtime:
        key = runtime.clock.new_id()
        await runtime.post(row.run, event, actor=actor(), key=key)
        if wait:
            await runtime.verdict(row.run, key)
