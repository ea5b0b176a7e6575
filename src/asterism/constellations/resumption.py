"""Resumption: what a run began with (its fleet file, its model), and whether the devices at hand can carry on what is left of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.task import TaskStar
from asterism.errors import InvalidInput
from asterism.kernel.packing import packer
from asterism.machines.constellation_agent.events import ConstellationSubmitted
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.flow_agent.events import ConversationStarted
from asterism.machines.orchestration_loop.events import LoopSubmitted
from asterism.planner.model_choice import ModelChoice, choose_model
from asterism.runtime.client import Client
from asterism.runtime.lookup import MAX_RUNS
from asterism.runtime.ports.device import Device
from asterism.runtime.ports.store import RunRow

First = ConstellationSubmitted | LoopSubmitted | ConversationStarted
"""The first events that can name a fleet."""


async def first_of(client: Client, row: RunRow) -> First | None:
    """Return the first event of a run; None where it began with something else than a request, a plan or a message."""
    records = await client.store.records(row.run_id, limit=1)
    event = packer(client.machine_of(row)).unpack(records[0]).event if records else None
    return event if isinstance(event, First) else None


def fleet_file_of(first: First | None, row: RunRow) -> Path | None:
    """Return the fleet file that a run was started with; None for a loop or a conversation that has no devices.

    Raises:
        InvalidInput: it does not say.
    """
    if isinstance(first, LoopSubmitted | ConversationStarted) and not first.fleet_file:
        return None
    if first is None or not first.fleet_file:
        raise InvalidInput(f"run {row.run_id} does not say which fleet it was started with; give one with --fleet")
    return Path(first.fleet_file)


async def fleet_file_below(client: Client, root: RunRow) -> Path | None:
    """Return the fleet file of the first run of a tree that has one and has not ended; None where there is none."""
    for row in await client.store.runs(root=root.run_id, limit=MAX_RUNS):
        first = await first_of(client, row) if row.status != "ended" else None
        if first is not None and first.fleet_file:
            return Path(first.fleet_file)
    return None


def model_of(first: First | None) -> ModelChoice | None:
    """Return the model that a run was started with; None for none."""
    return choose_model(**first.planner) if isinstance(first, ConstellationSubmitted) and first.planner else None


def check_constellation(row: RunRow) -> None:
    """Check that a run is of a constellation.

    Raises:
        InvalidInput: it is of another machine.
    """
    if row.machine != CONSTELLATION_AGENT.name:
        raise InvalidInput(f"run {row.run_id} is of machine {row.machine!r}; this is for constellations")


async def check_devices(client: Client, root: RunRow, devices: Mapping[str, Device]) -> None:
    """Check that the devices can carry on what is left of a run and of those below it, before a task fails for want of one.

    Raises:
        InvalidInput: a device or a skill is missing; names the run and the task.
        JournalMismatch: a journal cannot be replayed.
    """
    for row in await client.store.runs(root=root.run_id, limit=MAX_RUNS):
        if row.status != "ended":
            memory = (await client.load(row.run_id)).memory
            if row.machine == CONSTELLATION_AGENT.name:
                _check_tasks(row, memory.constellation.tasks.values(), devices)


def _check_tasks(row: RunRow, tasks: Iterable[TaskStar], devices: Mapping[str, Device]) -> None:
    for task in tasks:
        if task.constellation is not None:
            nested = TaskConstellation.from_dict(task.constellation)
            _check_tasks(row, () if task.settled else nested.tasks.values(), devices)
            continue
        device = devices.get(task.device)
        if not task.settled and (device is None or (task.resolved_skill and device.profile.skill(task.resolved_skill) is None)):
            what = f"no skill {task.resolved_skill!r} on device {task.device!r}" if device else f"no device {task.device!r}"
            raise InvalidInput(f"run {row.run_id}: this fleet has {what}, which task {task.task_id} needs; name another one with --fleet")
