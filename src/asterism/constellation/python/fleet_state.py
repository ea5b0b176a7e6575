"""The state of the devices of a fleet: what they answer, and what the runs in a database know about them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.requirements import cause_of
from asterism.devices.dispatch.lane import FLAPPING_S, MAX_LOSSES
from asterism.devices.dispatch.places import Drain
from asterism.devices.fleet.fleet_file import DeviceEntry
from asterism.devices.model.attempt import DeviceLost
from asterism.devices.port import Device
from asterism.engine.kernel.machine import kind_of
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.lookup import MAX_RUNS
from asterism.errors import AsterismError
from asterism.views.text.fleet import DeviceState, Health

RECENT_RUNS, RECENT_ENTRIES = 20, 2000
"""The runs, and the last entries of each, that are searched for the last sign of a device."""
_CHILD_KINDS = ("agent", "flow")
_ACTOR = "device:"


class RunsKnowledge(msgspec.Struct):
    """The devices of a fleet as the runs in a database know them, by id.

    Attributes:
        running, queued: attempts of the runs that a process drives.
        lost: the reasons of the devices that such a run has lost.
        lost_at: the time of the last loss.
        losses: losses in the last ``FLAPPING_S`` seconds.
        seen: the time of the last sign.
        draining: who has set a device to drain.
    """

    running: Counter[str] = msgspec.field(default_factory=Counter)
    queued: Counter[str] = msgspec.field(default_factory=Counter)
    lost: dict[str, str] = {}
    lost_at: dict[str, float] = {}
    losses: Counter[str] = msgspec.field(default_factory=Counter)
    seen: dict[str, float] = {}
    draining: dict[str, Drain] = {}


async def knowledge_of(client: Client, fleet_file: Path, now: float) -> RunsKnowledge:
    """Return what the runs of a fleet file know: the live ones, and the newest others."""
    known, there = RunsKnowledge(), _resolved(fleet_file)
    live = [row for row in await client.store.runs(limit=MAX_RUNS, open_only=True) if row.owner]
    recent = {row.run_id: row for row in (*live, *await client.store.runs(limit=RECENT_RUNS))}
    for row in recent.values():
        if row.machine != CONSTELLATION_AGENT.name:
            continue
        with contextlib.suppress(AsterismError):  # another version may have written to it
            first = await client.first_event(row)
            if first is None or _resolved(first.needs().fleet_file) != there:
                continue
            await _read_signs(known, client, row, now)
            if row.owner and row.status != "ended":
                await _read_load(known, client, row)
    return known


def _resolved(fleet_file: Path | str) -> str:
    return os.path.realpath(fleet_file)


async def _read_signs(known: RunsKnowledge, client: Client, row: RunRow, now: float) -> None:
    """Note when the devices have given a sign, and when they were lost."""
    lost = kind_of(DeviceLost(device=""))
    for record in await client.store.records(row.run_id, after=max(0, row.seq - RECENT_ENTRIES)):
        if not record.actor.startswith(_ACTOR):
            continue
        device = record.actor.removeprefix(_ACTOR)
        times = known.lost_at if record.kind == lost else known.seen
        times[device] = max(record.at, times.get(device, 0.0))
        if record.kind == lost and now - record.at <= FLAPPING_S:
            known.losses[device] += 1


async def _read_load(known: RunsKnowledge, client: Client, row: RunRow) -> None:
    memory: ConstellationMemory = (await client.load(row.run_id)).memory
    for effect_id, attempt in memory.attempts.items():
        (known.queued if effect_id in memory.queued else known.running)[attempt.device_id] += 1
    known.lost |= memory.lost_devices


async def answers_of(devices: Mapping[str, Device]) -> dict[str, str]:
    """Ask all devices at once; return by id why a device cannot be used, empty for one that can."""
    async with asyncio.TaskGroup() as group:
        asked = {name: group.create_task(cause_of(device)) for name, device in devices.items()}
    return {name: task.result() for name, task in asked.items()}


def states_of(
    entries: Iterable[DeviceEntry], devices: Mapping[str, Device] | None, answers: Mapping[str, str], known: RunsKnowledge, now: float
) -> list[DeviceState]:
    """Return the state of each device.

    Args:
        entries: the tables of the fleet.
        devices: the open devices; None if nobody has connected to them.
        answers: their answers, as of ``answers_of``.
        known: what the runs know.
        now: seconds since the epoch.
    """
    states = []
    for entry in entries:
        name = entry.id
        health, reason = _health(name, answers.get(name) if devices is not None else None, known)
        device = devices.get(name) if devices is not None else None
        states.append(
            DeviceState(
                device=name,
                kind=entry.kind,
                health=health,
                reason=reason,
                since=known.lost_at.get(name) if name in known.lost else None,
                last_seen=now if answers.get(name) == "" else known.seen.get(name),
                running=known.running[name],
                queued=known.queued[name],
                limit=None if entry.kind in _CHILD_KINDS else entry.concurrency,
                skills=_skills(entry, device, is_known=health != "unknown" and not answers.get(name)),
            )
        )
    return states


def _health(name: str, answer: str | None, known: RunsKnowledge) -> tuple[Health, str]:
    if answer:
        return "lost", answer
    if name in known.lost and (answer is None or known.losses[name] >= MAX_LOSSES):
        return ("quarantined" if known.losses[name] >= MAX_LOSSES else "lost"), known.lost[name]
    if drain := known.draining.get(name):
        return "draining", f"it gets no new tasks until that ends; set by {drain.by or 'somebody'}"
    return ("unknown" if answer is None else "ok"), ""


def _skills(entry: DeviceEntry, device: Device | None, *, is_known: bool) -> tuple[str, ...] | None:
    """Return the names of the skills: those that the device has, else those that its table names."""
    if device is not None and is_known:
        return tuple(skill.name for skill in device.profile.skills)
    sources = tuple(source.rpartition(":")[2] for source in getattr(entry, "skills", ()))
    named = (*sources, *(command.name for command in getattr(entry, "commands", ())))
    return named or None
