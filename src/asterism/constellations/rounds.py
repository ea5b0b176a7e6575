"""Rounds: the runs of a session, each of which knows what the ones before it have come to. The first begins with ``submit``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from asterism.constellations.goal import Goal, goal_of
from asterism.constellations.resumption import check_constellation, first_of, model_of
from asterism.errors import InvalidInput
from asterism.machines.constellation_agent.events import ConstellationSubmitted, RunOptions
from asterism.machines.constellation_agent.previous_rounds import MAX_ROUNDS, round_of
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.planner.model_choice import ModelChoice
from asterism.runtime.client import Client
from asterism.runtime.ports.store import RunRow


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What the next run of a session takes over from the last one.

    Attributes:
        session: id of the session.
        earlier: the rounds so far, oldest first, in short.
        options: of the last round.
        model: that planned it; None for none.
        fleet_file: it was started with; empty where it does not say.
    """

    session: str = ""
    earlier: tuple[dict[str, Any], ...] = ()
    options: RunOptions = RunOptions()
    model: ModelChoice | None = None
    fleet_file: str = ""


async def submit(
    client: Client,
    goal: Goal | Path | str,
    *,
    options: RunOptions | None = None,
    model: ModelChoice | None = None,
    after: Round = Round(),  # noqa: B008 - frozen
    actor: str = "user",
) -> str:
    """Write a run of a plan or a request over the client's fleet; a worker drives it.

    Args:
        client: with the fleet.
        goal: a request in words, the path of a plan file, or a goal.
        options: how it behaves; by default as the round before it.
        model: plans it; by default the one of the round before it. The planner of the worker is used where there is none.
        after: the round before it (``round_after``); none by default.
        actor: who submits it.

    Returns:
        The run's id.

    Raises:
        InvalidInput: the plan file cannot be used.
        EditRefused: the plan cannot be run on this fleet; nothing is written.
    """
    goal = goal if isinstance(goal, Goal) else goal_of(goal)
    first = _submitted(client, goal, options or after.options, model or after.model, after)
    return await client.submit(CONSTELLATION_AGENT, first, title=goal.title, actor=actor, session=after.session)


def _submitted(client: Client, goal: Goal, options: RunOptions, model: ModelChoice | None, after: Round) -> ConstellationSubmitted:
    return ConstellationSubmitted(
        request=goal.request,
        fleet=tuple(client.fleet.values()),
        fleet_file=os.path.realpath(client.fleet_file) if client.fleet_file else "",
        working_directory=str(Path.cwd()),
        options=options,
        planner=msgspec.to_builtins(model) if model else {},
        plan=goal.plan,
        previous_rounds=after.earlier,
    )


async def follow(client: Client, run_id: str, goal: Goal | Path | str, *, actor: str = "user") -> str:
    """Write a run of a plan or a request as the next round of an ended run's session; raises as ``submit`` and ``round_after``."""
    return await submit(client, goal, after=await round_after(client, await client.describe(run_id)), actor=actor)


async def round_after(client: Client, row: RunRow) -> Round:
    """Return what the next round takes over from a run.

    Raises:
        InvalidInput: the run is of no constellation, or has not ended.
    """
    check_constellation(row)
    if row.status != "ended":
        raise InvalidInput(f"run {row.run_id} has not ended; what follows it needs its results. Go on with: asterism resume {row.run_id}")
    first = await first_of(client, row)
    memory = (await client.load(row.run_id)).memory
    return Round(
        session=row.session or row.run_id,
        earlier=(*memory.previous_rounds, round_of(row.run_id, memory))[-MAX_ROUNDS:],
        options=memory.options,
        model=model_of(first),
        fleet_file=first.fleet_file if first else "",
    )
