"""Rounds: the runs of a session, each with the results of the earlier ones. ``submit`` starts the first one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from asterism.constellation.machine.events import ConstellationSubmitted, RunOptions
from asterism.constellation.machine.requests import MAX_ROUNDS, round_of
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.nesting import check_plan
from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.python.goal import AnyGoal, Goal, fleet_for, goal_of, params_of
from asterism.constellation.python.resumption import check_constellation, model_of
from asterism.devices.attempts.attempt_files import chunks_of_path
from asterism.devices.kinds.here import HereDevice
from asterism.engine.kernel.data import FILE
from asterism.engine.kernel.guards import Guards, inherited
from asterism.engine.kernel.profile import Fleet
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.errors import InvalidInput


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The data that the next run of a session inherits from the last one.

    Attributes:
        session: id of the session.
        previous_rounds: summaries of the rounds so far, oldest first.
        options: options of the last round.
        model: model that planned the last round, or None.
        fleet_file: fleet file of the last round; empty if unknown.
        guards: the plan's part of the guards of the last round.
    """

    session: str = ""
    previous_rounds: tuple[dict[str, Any], ...] = ()
    options: RunOptions = RunOptions()
    model: ModelChoice | None = None
    fleet_file: str = ""
    guards: Guards = Guards()


async def submit(
    client: Client,
    goal: AnyGoal,
    *,
    options: RunOptions | None = None,
    model: ModelChoice | None = None,
    after: Round = Round(),  # noqa: B008 - frozen
    here: HereDevice | None = None,
    actor: str = "user",
    tenant: str = "",
    run_id: str = "",
) -> str:
    """Submit a run of a plan or a request on the client's fleet; a driver runs it.

    Args:
        client: client with the fleet.
        goal: a request in words, a constellation, a plan, the path of a plan file, or a goal.
        options: options of the run; by default those of the previous round, whose ``approve_plan`` and ``approve_edits`` hold in any
            case, and whose ``accept_failed`` ends with it.
        model: model that plans; by default that of the previous round, else the planner of the driver.
        after: the previous round (``round_after``); none by default.
        here: describes the functions that are tasks of the plan; by default one that is opened only for this.
        actor: name of the submitter.
        tenant: the tenant that the run belongs to.
        run_id: id of the run; a fresh one by default.

    Returns:
        The id of the run.

    Raises:
        InvalidInput: the plan file is invalid, or a function cannot be imported.
        EditRefused: the plan cannot run on this fleet; nothing is written.
    """
    goal = goal_of(goal)
    after = msgspec.structs.replace(after, options=_with_guards(options, after.options), model=model or after.model)
    fleet = await fleet_for(goal, client.fleet, here)
    if goal.plan is not None:
        check_plan(goal.plan, fleet)
    first = _submitted(client, goal, fleet, after)
    run_id = await _put_files(client, goal, run_id) if goal.files else run_id
    return await client.submit(
        CONSTELLATION_AGENT, first, title=goal.title, actor=actor, session=after.session, tenant=tenant, run_id=run_id
    )


def _with_guards(given: RunOptions | None, before: RunOptions) -> RunOptions:
    """Return the options of a round, with the approvals of plans and edits that the previous round asked for."""
    options = given or msgspec.structs.replace(before, accept_failed=False)
    return msgspec.structs.replace(
        options,
        approve_plan=options.approve_plan or before.approve_plan,
        approve_edits=options.approve_edits or before.approve_edits,
    )


async def _put_files(client: Client, goal: Goal, run_id: str) -> str:
    """Store the files of a goal for a new run; return its id, a fresh one by default."""
    if client.files is None:
        raise InvalidInput("this program has no store for files; open it with asterism.open() or asterism.connect()")
    run_id = run_id or client.clock.new_id()
    for digest, path in goal.files.items():
        value = await client.files.put(run_id, Path(path).name, chunks_of_path(Path(path)))
        if value[FILE] != digest:
            raise InvalidInput(f"{path}: the file was changed while it was read; try again")
    return run_id


def _submitted(client: Client, goal: Goal, fleet: Fleet, inherited: Round) -> ConstellationSubmitted:
    return ConstellationSubmitted(
        request=goal.request,
        fleet=tuple(fleet.values()),
        fleet_file=os.path.realpath(client.fleet_file) if client.fleet_file else "",
        working_directory=str(Path.cwd()),
        options=inherited.options,
        planner=msgspec.to_builtins(inherited.model) if inherited.model else {},
        plan=goal.plan,
        params=params_of(goal),
        previous_rounds=inherited.previous_rounds,
        guards=inherited.guards,
    )


async def follow(client: Client, run_id: str, goal: AnyGoal, *, actor: str = "user") -> str:
    """Submit a run as the next round of an ended run's session; raises as ``submit`` and ``round_after``."""
    return await submit(client, goal, after=await round_after(client, await client.describe(run_id)), actor=actor)


async def round_after(client: Client, row: RunRow) -> Round:
    """Return the data that the next round inherits from a run.

    Raises:
        InvalidInput: the run does not belong to a constellation agent, or has not ended.
    """
    check_constellation(row)
    if row.status != "ended":
        raise InvalidInput(
            f"run {row.run_id} has not ended, and the next round needs its results; resume it with: asterism resume {row.run_id}"
        )
    first = await client.first_event(row)
    memory = (await client.load(row.run_id)).memory
    return Round(
        session=row.session or row.run_id,
        previous_rounds=(*memory.previous_rounds, round_of(row.run_id, memory))[-MAX_ROUNDS:],
        options=memory.options,
        model=model_of(first),
        fleet_file=first.needs().fleet_file if first else "",
        guards=inherited(memory.guards),
    )
