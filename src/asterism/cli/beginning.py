"""What a run was begun with: its fleet file, and its model. Whoever goes on with it finds them here, and need not be told again."""

from __future__ import annotations

from pathlib import Path

from asterism.cli.finding import MAX_RUNS, machine_of
from asterism.errors import InvalidInput
from asterism.kernel.packing import packer
from asterism.machines.constellation_agent.events import Submitted
from asterism.machines.flow_agent.events import Begun
from asterism.machines.orchestration_loop.events import LoopSubmitted
from asterism.planner.model_choice import ModelChoice, choose_model
from asterism.runtime.ports.store import RunRow, Store

First = Submitted | LoopSubmitted | Begun
"""What begins the runs that can name a fleet."""


async def first_of(store: Store, row: RunRow) -> First | None:
    """What a run was started with; None where it was not started from a request, a plan or somebody's words."""
    event = next((packer(machine_of(row)).unpack(first).event for first in await store.records(row.run, limit=1)), None)
    return event if isinstance(event, First) else None


def fleet_file_of(first: First | None, row: RunRow) -> Path | None:
    """The fleet file that a run was started with; None for a loop or a conversation that has no devices.

    Raises:
        InvalidInput: it does not say.
    """
    if isinstance(first, LoopSubmitted | Begun) and not first.fleet_file:
        return None
    if first is None or not first.fleet_file:
        raise InvalidInput(f"run {row.run} does not say which fleet it was started with; give one with --fleet")
    return Path(first.fleet_file)


async def fleet_file_below(store: Store, root: RunRow) -> Path | None:
    """The fleet file of a run, or of a constellation below one that has none itself; None where there is none that has not ended."""
    for row in await store.runs(root=root.run, limit=MAX_RUNS):
        first = await first_of(store, row) if row.status != "ended" else None
        if first is not None and first.fleet_file:
            return Path(first.fleet_file)
    return None


def choice_of(first: First | None) -> ModelChoice | None:
    """The model that a run was started with; None for none."""
    return choose_model(**first.planner) if isinstance(first, Submitted) and first.planner else None
