"""Commands that drive a run, or signal the process that drives it: run, follow, resume, pause, unpause, lift, cancel, retry."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from asterism.app.bootstrap import open_devices, open_driver_for, open_planner, open_runtime, open_store
from asterism.app.settings import database_path, model_choice, server_url
from asterism.cli.completion_command import run_ids
from asterism.cli.exit_codes import FAILED, FINISHED, INTERRUPTED, WAITING
from asterism.cli.foreground import AS_LINES, Display, drive
from asterism.cli.options import (
    BackupModel,
    Database,
    EveryItem,
    FleetFile,
    Here,
    JsonEvents,
    Model,
    NewMaxCost,
    NewMaxTokens,
    OtherFleet,
    OtherModel,
    Record,
    ResultFile,
    RunFlags,
    RunId,
    ServerUrl,
    WhatToRun,
    raised_limits,
)
from asterism.cli.output import message, put
from asterism.cli.plan_values import Values, with_values
from asterism.cli.run_access import (
    actor,
    check_database,
    check_sendable,
    connected,
    read_run,
    refuse_with_server,
    remote_runs,
    resume_hint,
    runs_of,
)
from asterism.cli.served_runs import follow_served, is_served, make_due, reserved, served_fleet
from asterism.constellation.machine.events import RaiseLimits, Retry, RunOptions
from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.python.early_check import check_before_opening, needed_devices
from asterism.constellation.python.goal import Goal, check_fleet_given, fleet_for, goal_of, needs_fleet, rehearse
from asterism.constellation.python.resumption import (
    declared_fleet,
    fleet_file_of,
    has_finally_tasks,
    retry_ended,
    stops_elsewhere,
)
from asterism.constellation.python.rounds import round_after, submit
from asterism.constellation.requirements import check_secrets_set
from asterism.devices.fleet.fleet_file import check_channels
from asterism.devices.kinds.here import here_of
from asterism.engine.control.run_control import Cancel, GuardLifted, Pause, Unpause
from asterism.engine.kernel.guards import not_guarded
from asterism.engine.kernel.machine import Event, kind_of
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.lookup import find_run, unowned_runs
from asterism.engine.runtime.runs import Runs
from asterism.engine.runtime.runtime import RESERVED_S, Runtime
from asterism.errors import InvalidInput, MissingExtra, Refused, RunOwned, UnknownMachine
from asterism.views.words import count, plain

WORST_FIRST = (INTERRUPTED, FAILED, WAITING, FINISHED)
"""Exit codes by precedence, for a command that has driven several runs."""


def run(
    what: WhatToRun,
    /,
    *,
    fleet: FleetFile = None,
    database: Database = None,
    json: JsonEvents = False,
    every_item: EveryItem = False,
    result_file: ResultFile = None,
    model: Model = None,
    backup_model: BackupModel = None,
    record: Record = None,
    here: Here = False,
    server: ServerUrl = None,
    values: Values = (),
    behaviour: RunFlags = RunFlags(),  # noqa: B008 - frozen
) -> int:
    """Run a request in words, a plan file, or a constellation of a Python file."""
    if result_file is not None and (result_file.is_dir() or not result_file.parent.is_dir()):
        problem = "it is a folder" if result_file.is_dir() else f"there is no folder {result_file.parent}"
        raise InvalidInput(f"--result-file {result_file}: {problem}")
    how = Display(json, every_item, result_file)
    if url := server_url(server, database):
        refuse_with_server(fleet=fleet, model=model, backup_model=backup_model, record=record, here=here)
        goal, options = with_values(goal_of(what), values, asks=True), behaviour.options("never")
        return asyncio.run(_run_served(url, goal, options, how))
    choice = model_choice(model, backup_model, record)
    if choice is None and behaviour.replan not in (None, "never"):
        raise InvalidInput(f"--replan {behaviour.replan} needs a model; choose one with --model")
    options = behaviour.options("when_needed" if choice else "never")
    goal = with_values(goal_of(what), values, asks=True)
    if fleet is None and not here and needs_fleet(goal):
        fleet = asyncio.run(served_fleet(database_path(database)))
    check_fleet_given(goal, fleet, "run", what)
    check_channels(fleet, behaviour.notify)
    check_before_opening(goal, fleet)
    return asyncio.run(_run(goal, fleet, database_path(database), options, choice, how=how, here=here))


async def _run(
    goal: Goal, fleet_file: Path | None, database: Path, options: RunOptions, choice: ModelChoice | None, *, how: Display, here: bool
) -> int:
    if goal.plan is not None and options.replan == "never":
        choice = None  # the run never asks it
    await check_database(database)
    needed = needed_devices(goal.plan, fleet_file) if choice is None else None
    async with open_planner(choice) as planner, open_devices(fleet_file, database, needed=needed) as (fleet, devices):
        plan = None
        if goal.plan is not None or choice is None:
            plan, _ = await rehearse(goal, await fleet_for(goal, fleet, here_of(devices)), planner, devices)
        async with (
            open_store(database, create=True) as store,
            open_runtime(store, devices, database, planner=planner, fleet_file=fleet_file) as runtime,
        ):
            goal = msgspec.structs.replace(goal, title=plain(goal.title))
            runtime.is_served = not here and await is_served(store, runtime.fleet_name)
            if plan is not None and not runtime.is_served:  # a server has secrets of its own
                check_secrets_set(plan, devices)
            submitted = await submit(runtime, goal, options=options, model=choice, here=runtime.here, actor=actor())
            return await begin(runtime, submitted, how)


async def _run_served(url: str, goal: Goal, options: RunOptions, how: Display) -> int:
    async with remote_runs(url) as app:
        submitted = await app.start(msgspec.structs.replace(goal, title=plain(goal.title)), options)
        if not how.as_json:
            put(f"run {submitted.run_id}\n")
        return await follow_served(app, submitted.run_id, how)


async def begin(runtime: Runtime, submitted: str, how: Display) -> int:
    """Print the id of a new run, and drive it, or follow it if a server does."""
    if not how.as_json:
        put(f"run {submitted}\n")
    return await (follow_served if runtime.is_served else drive)(runtime, submitted, how)


def follow(
    named: RunId,
    what: Annotated[
        str, Parameter(name="REQUEST_OR_PLAN", help="The next request in words, plan file, or constellation of a Python file.")
    ],
    /,
    *,
    fleet: OtherFleet = None,
    database: Database = None,
    json: JsonEvents = False,
    every_item: EveryItem = False,
    result_file: ResultFile = None,
    here: Here = False,
    values: Values = (),
) -> int:
    """Run the next round of a session, with the fleet, model and options of an ended run. The planner knows the earlier rounds."""
    goal = with_values(goal_of(what), values, asks=True)
    return asyncio.run(_follow(named, goal, fleet, database, how=Display(json, every_item, result_file), here=here))


async def _follow(named: str, goal: Goal, fleet_file: Path | None, database: Path | None, *, how: Display, here: bool) -> int:
    path = database_path(database)
    async with connected(database) as client:
        row = await find_run(client.store, named)
        after = await round_after(client, row)
        file = fleet_file or fleet_file_of(await client.first_event(row), row)
        async with open_planner(after.model) as planner, open_devices(file or await declared_fleet(client, row), path) as (fleet, devices):
            plan = None
            if goal.plan is not None or after.model is None:
                plan, _ = await rehearse(goal, await fleet_for(goal, fleet, here_of(devices)), planner, devices)
            async with open_runtime(client.store, devices, path, planner=planner, fleet_file=file, profiles=fleet) as runtime:
                goal = msgspec.structs.replace(goal, title=plain(goal.title))
                runtime.is_served = not here and await is_served(client.store, runtime.fleet_name)
                if plan is not None and not runtime.is_served:
                    check_secrets_set(plan, devices)
                submitted = await submit(runtime, goal, after=after, here=runtime.here, actor=actor())
                return await begin(runtime, submitted, how)


def resume(
    named: Annotated[
        str | None,
        Parameter(
            name="RUN",
            help="Id of a run, or the first characters of the id or of its part after the hyphen [default: every interrupted run, "
            "and every run with an answer or an expired question; never a paused one].",
            completer=run_ids,
        ),
    ] = None,
    /,
    *,
    max_tokens: NewMaxTokens = None,
    max_cost: NewMaxCost = None,
    fleet: OtherFleet = None,
    model: OtherModel = None,
    database: Database = None,
    json: JsonEvents = False,
    every_item: EveryItem = False,
    result_file: ResultFile = None,
    here: Here = False,
) -> int:
    """Resume a run that was paused, or whose process ended. If a server drives its runs, the command follows it.

    A run that has used its planning budget needs --max-tokens or --max-cost with a higher limit.
    """
    limits = raised_limits(max_tokens, max_cost)
    choice = model_choice(model) if model else None
    how = Display(json, every_item, result_file)
    if named is None and limits != RaiseLimits():
        raise InvalidInput("--max-tokens and --max-cost apply to one run; give its id")
    if named is None and not (path := database_path(database)).exists():  # a scheduled resume may come before the first run
        put(f"nothing to resume: there is no database {path}")
        return FINISHED
    return asyncio.run(_resume(named, fleet, database, choice, limits=limits, how=how, here=here))


async def _resume(
    named: str | None,
    fleet: Path | None,
    database: Path | None,
    choice: ModelChoice | None,
    *,
    limits: RaiseLimits,
    how: Display,
    here: bool,
) -> int:
    async with connected(database) as client:
        if named is not None and limits != RaiseLimits() and await _is_raised(client, named, limits):
            return FINISHED
        rows = [await find_run(client.store, named)] if named is not None else await _interrupted(client)
        codes = []
        for row in rows:
            if row.status == "ended":
                raise Refused(f"run {row.run_id} has already ended ({row.outcome}); see: asterism show {row.run_id}")
            if row.owner and (here or not await is_served(client.store, row.fleet)):
                raise RunOwned(row.run_id, row.owner)
            client.form_of(row)
            if not how.as_json:
                put(f"run {row.run_id}  {plain(row.title, 100)}")
                put(f"this run is part of run {row.root}, which is resumed\n" if row.parent else "")
            unpause, path = named is not None, database_path(database)
            code = await drive_unowned(client, row, path, fleet, how, choice=choice, unpause=unpause, here=here)
            codes.append(code)
            if code == INTERRUPTED:
                break
        return next((code for code in WORST_FIRST if code in codes), FINISHED)


async def _is_raised(client: Client, named: str, limits: RaiseLimits) -> bool:
    """Raise the limits of a run; return True if the process that drives it has done so."""
    row = await unfinished_run(client, named)
    if not row.owner:
        live = await client.load(row.run_id)
        live.take(limits, at=row.updated_at, actor=actor())  # a rehearsal: refused here rather than by the driver
    await send_or_post(client, row, limits)
    if row.owner:
        put(f"the limits of run {row.run_id} are raised")
    return row.owner != ""


async def _interrupted(client: Client) -> list[RunRow]:
    """Return the runs that nobody drives and that need no person, oldest first; without one, the only waiting run.

    A paused run is never among them, whether ``pause`` or Ctrl-C has paused it: a scheduled ``resume`` must not undo a pause.
    """
    left = await unowned_runs(client)
    for row in left.unknown:
        put(f"skipped: {UnknownMachine(row.run_id, row.machine)}")
    for row in left.paused:
        put(f"run {row.run_id} is paused; resume with: asterism resume {row.run_id}")
    if not left.active and len(left.waiting) == 1:
        return left.waiting
    if left.waiting:
        put(f"waiting: {count(len(left.waiting), 'run')}; see: asterism inbox")
    if not (left.active or left.waiting or left.paused or left.unknown):
        put("nothing to resume")
    return left.active


async def drive_unowned(
    client: Client,
    row: RunRow,
    database: Path,
    fleet: Path | None,
    how: Display = AS_LINES,
    *,
    choice: ModelChoice | None = None,
    unpause: bool = True,
    here: bool = False,
) -> int:
    """Drive a run that no process owns, or follow it if a server drives its runs; for a child run, its root.

    Args:
        client: client of the database.
        row: row of the run.
        database: path of the database.
        fleet: fleet file; None for the one the run was started with.
        how: how it is shown.
        choice: model that plans; None for the one the run was started with.
        unpause: also unpause a run that a person has paused.
        here: drive it here, also if a server could; so does another fleet or model.

    Raises:
        RunOwned: another process drives the run; nothing was changed.
    """
    paused = [row.run_id] if unpause and row.parent and row.status == "paused" else []
    row = await client.describe(row.root)
    served = not (here or fleet or choice) and await is_served(client.store, row.fleet)
    if row.owner and not served:
        raise RunOwned(row.run_id, row.owner)
    if unpause and (row.status == "paused" or any(it.kind == kind_of(Pause) for it in await client.store.inbox([row.run_id]))):
        paused.append(row.run_id)
    if served:
        await _unpause_all(client, paused)
        await make_due(client, row)
        return await follow_served(client, row.run_id, how)
    async with open_driver_for(client, row, database, fleet_file=fleet, model=choice) as runtime:
        await _unpause_all(runtime, paused)
        return await drive(runtime, row.run_id, how)


async def _unpause_all(client: Client, runs: list[str]) -> None:
    for run in runs:
        await client.post(run, Unpause(), actor=actor(), key=client.clock.new_id())


def pause(
    named: RunId,
    /,
    *,
    reason: Annotated[str, Parameter(help="Reason, for the journal.")] = "",
    database: Database = None,
    server: ServerUrl = None,
) -> int:
    """Pause a run: running tasks continue to their end, no new ones start."""
    return asyncio.run(_pause(named, reason, database, server))


async def _pause(named: str, reason: str, database: Path | None, server: str | None) -> int:
    async with runs_of(database, server) as runs:
        row = await unfinished_run(runs, named)
        hint = resume_hint(row) if isinstance(runs, Client) else f"asterism unpause {row.run_id}"
        if row.status == "paused":
            put(f"run {row.run_id} is already paused; resume with: {hint}")
            return FINISHED
        await send_or_post(runs, row, Pause(reason=reason))
        if isinstance(runs, Client) and not row.owner:
            asks = await runs.inquiries(root=row.root)
            effect = "it stays paused when its questions are answered" if asks else "the pause waits in its inbox"
            put(f"no process drives run {row.run_id}; {effect}. Resume with: {hint}")
        else:
            put(f"pausing run {row.run_id}: running tasks continue to their end, no new ones start; resume with: {hint}")
        return FINISHED


def lift(
    named: RunId,
    guarded: Annotated[str, Parameter(name="NAME", help="Skill, or device, that a plan has guarded.")],
    /,
    *,
    reason: Annotated[str, Parameter(help="Reason, for the journal.")],
    database: Database = None,
    server: ServerUrl = None,
) -> int:
    """Lift the guard that a plan has set: from now on, no approval is needed for it in this run."""
    return asyncio.run(_lift(named, GuardLifted(name=guarded, reason=reason), database, server))


async def _lift(named: str, lifted: GuardLifted, database: Path | None, server: str | None) -> int:
    async with runs_of(database, server) as runs:
        row = await unfinished_run(runs, named)
        if why := not_guarded((await read_run(runs.store, row))[0].run.memory.guards, lifted.name):
            raise InvalidInput(f"run {row.run_id}: {why}")
        await send_or_post(runs, row, lifted)
        put(f"run {row.run_id}: {lifted.name} needs no approval of the plan any more; questions that are open stay open")
        return FINISHED


def unpause(
    named: RunId, /, *, fleet: OtherFleet = None, database: Database = None, server: ServerUrl = None, json: JsonEvents = False
) -> int:
    """Let a paused run start tasks again. If no process drives it, drive it here, as resume does."""
    if server_url(server, database):
        refuse_with_server(fleet=fleet, json=json)
    return asyncio.run(_unpause(named, fleet, database, server, as_json=json))


async def _unpause(named: str, fleet: Path | None, database: Path | None, server: str | None, *, as_json: bool) -> int:
    async with runs_of(database, server) as runs:
        row = await unfinished_run(runs, named)
        if isinstance(runs, Client) and not row.owner:
            return await drive_unowned(runs, row, database_path(database), fleet, Display(as_json))
        await runs.send(row.run_id, Unpause(), actor=actor())
        put(f"run {row.run_id} continues")
        return FINISHED


async def unfinished_run(runs: Runs, named: str) -> RunRow:
    """Return the row of a run; raises Refused if it has ended. A server knows what it can send to a run."""
    row = await find_run(runs.store, named)
    if row.status == "ended":
        raise Refused(f"run {row.run_id} has already ended ({row.outcome})")
    if isinstance(runs, Client):
        check_sendable(row)
    return row


async def send_or_post(runs: Runs, row: RunRow, event: Event) -> None:
    """Send an event of the user to the process that drives a run; without one, put it into the run's inbox."""
    if isinstance(runs, Client) and not row.owner:
        await post_event(runs, row, event)
    else:
        await runs.send(row.run_id, event, actor=actor())


async def post_event(client: Client, row: RunRow, event: Event) -> None:
    """Put an event of the user into the inbox of a run."""
    await client.post(row.run_id, event, actor=actor(), key=client.clock.new_id())


def retry(
    named: RunId,
    /,
    *tasks: Annotated[str, Parameter(name="TASK", help="Id of a failed task, or of an item such as transform[3] [default: all].")],
    no_drive: Annotated[bool, Parameter(negative=(), help="Do not drive the run.")] = False,
    fleet: OtherFleet = None,
    database: Database = None,
    server: ServerUrl = None,
    json: JsonEvents = False,
    every_item: EveryItem = False,
    here: Here = False,
) -> int:
    """Run failed and cancelled tasks again, and what was skipped because of them.

    A run that has ended does not change: a copy of it, with the results of its completed tasks, goes on.
    """
    how = Display(json, every_item)
    if url := server_url(server, database):
        refuse_with_server(fleet=fleet, here=here)
        return asyncio.run(_retry_served(url, named, tasks, how, follows=not no_drive))
    return asyncio.run(_retry(named, tasks, fleet, database, how, drive_on=not no_drive, here=here))


async def _retry_served(url: str, named: str, tasks: tuple[str, ...], how: Display, *, follows: bool) -> int:
    async with remote_runs(url) as app:
        row = await find_run(app.store, named)
        run_id = (await app.run_of(row.run_id).retry(*tasks)).run_id
        if run_id != row.run_id and not how.as_json:
            put(f"run {run_id}  retries {row.run_id}\n")
        return await follow_served(app, run_id, how) if follows else FINISHED


async def _retry(
    named: str, tasks: tuple[str, ...], fleet: Path | None, database: Path | None, how: Display, *, drive_on: bool, here: bool
) -> int:
    async with connected(database) as client:
        row = await find_run(client.store, named)
        if row.status == "ended":
            client.reserved_s = RESERVED_S if here or fleet else 0.0
            new = await retry_ended(client, row.run_id, tasks, actor=actor())
            if not how.as_json:
                above = f"run {row.parent}, which started {row.run_id}, does not get the new result\n" if row.parent else ""
                put(f"run {new}  retries {row.run_id}\n{above}")
            row = await client.describe(new)
        else:
            async with reserved(client, await client.describe(row.root), here=here):
                await client.post(row.run_id, Retry(tasks=tasks), actor=actor(), key=client.clock.new_id())
        root = await client.describe(row.root)
        if not drive_on or (root.owner and not await is_served(client.store, root.fleet)):
            return FINISHED
        return await drive_unowned(client, row, database_path(database), fleet, how, here=here)


def cancel(
    named: RunId,
    /,
    *,
    reason: Annotated[str, Parameter(help="Reason, for the journal.")] = "",
    database: Database = None,
    server: ServerUrl = None,
) -> int:
    """Cancel a run: its work in progress is stopped, and nothing new starts. A cancelled run cannot be resumed."""
    return asyncio.run(_cancel(named, reason, database, server))


async def _cancel(named: str, reason: str, database: Path | None, server: str | None) -> int:
    async with runs_of(database, server) as client:
        row = await unfinished_run(client, named)
        if not isinstance(client, Client):
            await client.send(row.run_id, Cancel(reason=reason), actor=actor())
            put(f"run {row.run_id} is being cancelled by the server")
            return FINISHED
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
