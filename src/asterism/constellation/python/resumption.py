"""Resumption: the fleet file and model that a run was started with, and a check of the devices for its remaining tasks."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from asterism.constellation.machine.events import ConstellationAgentStatus, Retry, StopAttempt
from asterism.constellation.machine.memory import NAMED, ConstellationMemory
from asterism.constellation.machine.retry import FAILED, failed_task, none_failed
from asterism.constellation.machine.stopping import may_run_elsewhere, outlives_cancel
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.task import TaskStar
from asterism.constellation.planner.model_choice import ModelChoice, choose_model
from asterism.constellation.requirements import missing_for_tasks
from asterism.devices.fleet.fleet_file import UnopenedDevice
from asterism.devices.fleet.python_fleet import Fleet
from asterism.devices.kinds.here import HereDevice, here_of
from asterism.devices.kinds.local import LocalDevice
from asterism.devices.port import Device, RemoteDevice
from asterism.devices.skills.source import is_importable
from asterism.devices.workers.thread import missing_text, registered_function
from asterism.engine.control.run_control import Cancel
from asterism.engine.kernel.machine import Event, Needs, kind_of
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.profile import HERE
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.lookup import MAX_RUNS
from asterism.errors import InvalidInput, Refused


def fleet_file_of(first: Event | None, row: RunRow) -> Path | None:
    """Return the fleet file that a run was started with; None for a run without devices that a file declares.

    Raises:
        InvalidInput: the first event names no fleet file.
    """
    needs = first.needs() if first else Needs()
    is_declared = needs.devices is not None and all(profile.device_id == HERE or profile.table for profile in needs.devices or ())
    if is_declared or (needs.devices is None and not needs.fleet_file):
        return None
    if not needs.fleet_file:
        raise InvalidInput(f"run {row.run_id} does not name the fleet it was started with; give one with --fleet")
    return Path(needs.fleet_file)


async def fleet_file_below(client: Client, root: RunRow) -> Path | None:
    """Return the fleet file of this run, or of its first unfinished child run with one; None if there is none."""
    for row in await client.store.runs(root=root.run_id, limit=MAX_RUNS):
        first = await client.first_event(row) if row.status != "ended" else None
        if first is not None and (file := first.needs().fleet_file):
            return Path(file)
    return None


async def declared_fleet(client: Client, root: RunRow) -> Fleet | None:
    """Return the devices of this run and of its child runs that were declared in Python; None if there are none."""
    events = [await client.first_event(row) for row in await client.store.runs(root=root.run_id, limit=MAX_RUNS)]
    return Fleet.from_profiles(profile for event in events if event for profile in event.needs().devices or ())


def model_of(first: Event | None) -> ModelChoice | None:
    """Return the model that a run was started with, or None."""
    planner = first.needs().planner if first else {}
    return choose_model(**planner) if planner else None


def check_constellation(row: RunRow) -> None:
    """Check that a run belongs to a constellation agent.

    Raises:
        InvalidInput: it belongs to another machine.
    """
    if row.machine != CONSTELLATION_AGENT.name:
        raise InvalidInput(f"run {row.run_id} belongs to machine {row.machine!r}; this works only for constellations")


async def has_finally_tasks(client: Client, root: RunRow) -> bool:
    """Return True if a cancel of a run lets ``finally`` tasks run: its own, or those of an unfinished child run."""
    for row in await client.store.runs(root=root.root, limit=MAX_RUNS):
        if row.status != "ended" and row.machine == CONSTELLATION_AGENT.name:
            memory = (await client.load(row.run_id)).memory
            if not memory.concluding and any(task.role == "finally" for task in memory.constellation.tasks.values()):
                return True
    return False


async def stops_elsewhere(client: Client, root: RunRow) -> bool:
    """Return True if the end of a run has to stop an attempt on a remote device: its own, or that of an unfinished child run."""
    for row in await client.store.runs(root=root.root, limit=MAX_RUNS):
        if row.status != "ended" and row.machine == CONSTELLATION_AGENT.name and _stops_elsewhere(await client.load(row.run_id)):
            return True
    return False


def _stops_elsewhere(run: Run[ConstellationMemory]) -> bool:
    memory = run.memory
    return (
        any(isinstance(effect, StopAttempt) for effect in run.outstanding.values())
        or any(memory.asked_by_device(inquiry) for inquiry in memory.questions)
        or any(may_run_elsewhere(memory, effect_id, attempt) for effect_id, attempt in memory.attempts.items())
        or any(outlives_cancel(memory, effect_id, attempt) for effect_id, attempt in memory.attempts.items())
    )


async def devices_left(client: Client, root: RunRow) -> Collection[str] | None:
    """Return the devices that the remaining tasks of a run use; None if it may use any.

    It may with a model, a child run, a nested plan, a loop or an agent, without tasks, and while work goes on elsewhere.
    """
    rows = await client.store.runs(root=root.run_id, limit=2)
    if root.machine != CONSTELLATION_AGENT.name or len(rows) > 1:
        return None
    run: Run[ConstellationMemory] = await client.load(root.run_id)
    memory = run.memory
    if root.status != "ended" and _stops_elsewhere(run):
        return None
    left = [task for task in memory.constellation.tasks.values() if not task.settled and task.wait is None]
    profiles = [memory.fleet.get(task.device) for task in left if task.device != HERE]
    is_known = all(profile is not None and profile.kind not in ("agent", "flow") for profile in profiles)
    if not left or not is_known or any(task.constellation is not None for task in left) or model_of(await client.first_event(root)):
        return None
    return {task.device for task in left}


async def check_devices(client: Client, root: RunRow, devices: Mapping[str, Device]) -> None:
    """Check that the remaining tasks of a run and its child runs can be performed here: devices, skills, folder, functions, secrets.

    A run that is to be cancelled needs only the devices and skills: a ``finally`` task that lacks the rest fails, and the run ends.

    Raises:
        InvalidInput: one of them is missing; the text names the run, and what to do.
        JournalMismatch: a journal cannot be replayed.
    """
    rows = await client.store.runs(root=root.run_id, limit=MAX_RUNS)
    cancelled = {it.run_id for it in await client.store.inbox([row.run_id for row in rows]) if it.kind == kind_of(Cancel)}
    for row in rows:
        if row.status == "ended":
            continue
        memory = (await client.load(row.run_id)).memory
        if row.machine != CONSTELLATION_AGENT.name:
            continue
        tasks = list(memory.constellation.tasks.values())
        functions = [*_check_tasks(row, tasks, devices)]
        if not cancelled & {row.run_id, row.root}:
            _check_folder(row, tasks, devices, memory.working_directory)
            await _check_functions(row, functions, here_of(devices), memory.working_directory)
            _check_secrets(row, tasks, devices)


def _check_folder(row: RunRow, tasks: Iterable[TaskStar], devices: Mapping[str, Device], folder: str) -> None:
    """Check that the folder where a run was submitted exists, if a remaining task is performed in it."""
    missing = bool(folder) and not os.path.isdir(folder)  # noqa: PTH112 - a Path raises for a folder that may not be read
    if missing and (task := next(_tasks_in_folder(tasks, devices), None)):
        raise InvalidInput(
            f"run {row.run_id}: there is no folder {folder}, where it was submitted and task {task.task_id} is performed; "
            f"restore it with its files, then: asterism resume {row.run_id}"
        )


def _tasks_in_folder(tasks: Iterable[TaskStar], devices: Mapping[str, Device]) -> Iterator[TaskStar]:
    for task in tasks:
        if task.settled:
            continue
        device = devices.get(task.device)
        if task.constellation is not None:
            yield from _tasks_in_folder(TaskConstellation.from_dict(task.constellation).tasks.values(), devices)
        elif (isinstance(device, LocalDevice) and not device.working_folder) or (
            isinstance(device, HereDevice) and is_importable(task.resolved_skill or task.skill or task.name)
        ):
            yield task


def _check_secrets(row: RunRow, tasks: Sequence[TaskStar], devices: Mapping[str, Device]) -> None:
    """Check that the secrets of the remaining tasks can be used here: without one, its task would fail."""
    if reasons := missing_for_tasks(tasks, devices):
        raise InvalidInput(f"run {row.run_id}: {'; '.join(reasons)}; then: asterism resume {row.run_id}")


async def _check_functions(row: RunRow, sources: Sequence[str], here: HereDevice | None, folder: str) -> None:
    """Check that the functions of the remaining tasks can be imported, from the folder where the run was submitted."""
    if not sources or here is None:
        return
    try:
        await here.profile_with(sources, folder)
    except InvalidInput as error:
        raise InvalidInput(f"run {row.run_id}: {error}; restore the function, then: asterism resume {row.run_id}") from None


def _check_tasks(row: RunRow, tasks: Iterable[TaskStar], devices: Mapping[str, Device]) -> Iterator[str]:
    """Check the remaining tasks; yield the sources of their functions that other processes import."""
    for task in tasks:
        if task.constellation is not None:
            nested = TaskConstellation.from_dict(task.constellation)
            yield from _check_tasks(row, () if task.settled else nested.tasks.values(), devices)
            continue
        if task.wait is not None:
            continue
        device = devices.get(task.device)
        if task.device == HERE:
            source = task.resolved_skill or task.skill or task.name  # a nested plan has not been resolved
            if not task.settled and is_importable(source):
                yield source
            elif not task.settled and registered_function(source) is None:
                raise InvalidInput(f"run {row.run_id}: {missing_text(source)}")
            continue
        if isinstance(device, RemoteDevice | UnopenedDevice) and not device.profile.skills:
            continue  # it could not be reached when it was opened, and may have the skill when it is found
        if not task.settled and (device is None or (task.resolved_skill and device.profile.skill(task.resolved_skill) is None)):
            what = f"no skill {task.resolved_skill!r} on device {task.device!r}" if device else f"no device {task.device!r}"
            raise InvalidInput(f"run {row.run_id}: this fleet has {what}, which task {task.task_id} needs; name another one with --fleet")


async def retry_ended(client: Client, run_id: str, tasks: tuple[str, ...], *, actor: str, new_id: str = "") -> str:
    """Write a copy of an ended run in which failed tasks are to run again, and return its id.

    The copy ends before the end of the run was decided: its on_failure and finally tasks are still to run, and tasks
    that a cancel has stopped continue.

    Args:
        client: access to the store.
        run_id: id of the ended run.
        tasks: ids of failed tasks and items; empty for all.
        actor: who retries it.
        new_id: id of the copy; a fresh one by default.

    Raises:
        InvalidInput: the run has no tasks; names the runs below it that have failed ones.
        Refused: a task has not failed, or none has; nothing is written.
    """
    row = await client.store.run(run_id)
    machine = client.form_of(row).machine
    entries = [packer(machine).unpack(record) for record in await client.store.records(run_id)]
    ended, undecided = Run(machine, run_id, performs=False), 0
    for entry in entries:
        ended.replay([entry])
        undecided = entry.seq if _is_undecided(ended) else undecided
    if not undecided:
        raise InvalidInput(f"run {run_id} has no tasks to retry{await _failed_below(client, row)}")
    named = [failed_task(ended.memory.constellation, task_id) for task_id in tasks]
    copied = Run(machine, run_id, performs=False)
    copied.replay(entries[:undecided])
    before = [copied.memory.constellation.tasks.get(task.task_id) for task in named] or copied.memory.constellation.in_order()
    failed = tuple(task.task_id for task in before if task is not None and task.status in FAILED)
    if not failed and not named and not any(task.status in FAILED for task in ended.memory.constellation.in_order()):
        raise Refused(none_failed(ended.memory.constellation))
    # A task that had not failed yet when the copy ends continues there
    return await client.fork(run_id, undecided, actor=actor, new_id=new_id, first=Retry(tasks=failed) if failed else None)


async def _failed_below(client: Client, row: RunRow) -> str:
    """Return in words the runs of constellations below a run that did not finish; empty if there are none."""
    tree = await client.store.runs(root=row.root, limit=MAX_RUNS)
    below = [
        it.run_id
        for it in tree
        if it.machine == CONSTELLATION_AGENT.name and it.run_id.startswith(f"{row.run_id}.") and it.outcome not in ("", "finished")
    ]
    whose = "child run has" if len(below) == 1 else "child runs have"
    more = f" and {len(below) - NAMED} more" if len(below) > NAMED else ""
    return f"; its {whose}: asterism retry {', '.join(below[:NAMED])}{more}" if below else ""


def _is_undecided(run: Run[Any]) -> bool:
    memory = run.memory
    return isinstance(memory, ConstellationMemory) and run.state is ConstellationAgentStatus.CONTINUE and not memory.concluding
