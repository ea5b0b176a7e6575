"""The devices and the machines of a server; set a device to drain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from asterism.console.export import machine_data
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.devices.dispatch.places import Places
from asterism.engine.kernel.machine import Machine, kind_of
from asterism.engine.kernel.profile import AgentProfile
from asterism.service.api.context import ApiContext, Context
from asterism.service.api.identity import Reader, ServerManager, actor_of
from asterism.service.api.problems import Problem, documented

router = APIRouter(tags=["fleet"])
DeviceId = Annotated[str, Path(max_length=200)]
CHILD_KINDS = ("agent", "flow")


class DeviceModel(BaseModel):
    """A device of the fleet."""

    device_id: str
    kind: str
    description: str
    aliases: list[str]
    capabilities: list[str]
    natural_language: bool
    concurrency: int
    skills: list[dict[str, Any]]
    draining: bool = Field(description="It gets no new tasks; those under way go on.")
    draining_by: str = Field(description="Who has set it to drain; empty if nobody has.")


class DeviceList(BaseModel):
    """The fleet of a server."""

    fleet: str
    devices: list[DeviceModel]


class RowModel(BaseModel):
    """What an event leads to, from the states in which it leads to the same."""

    event: str
    states: list[str] = Field(description="States before the event.")
    to: list[str] = Field(description="States that may follow.")
    stays: bool = Field(description="The event may leave the state as it is.")


class MachineModel(BaseModel):
    """A machine whose runs this server drives and shows."""

    name: str
    states: list[str]
    submits: bool
    initial: str
    ends: list[str]
    moves: list[tuple[str, str]] = Field(description="Each state with each one that may follow it.")
    rows: list[RowModel] = Field(description="Its table.")


class MachineList(BaseModel):
    """The machines of a server."""

    machines: list[MachineModel]


@router.get("/devices", responses=documented())
async def list_devices(context: Context, sender: Reader) -> DeviceList:  # noqa: ARG001 - any reader
    """Return the devices of the fleet and their skills."""
    devices = [_model(context, profile) for profile in context.client.fleet.values()]
    return DeviceList(fleet=context.options.fleet, devices=devices)


@router.post("/devices/{device_id}/drain", responses=documented(404, 409, 422))
async def drain_device(device_id: DeviceId, context: Context, sender: ServerManager) -> DeviceModel:
    """Give a device no new tasks; those under way go on, and new ones wait. It holds for all processes of the database."""
    profile, places = _device(context, device_id)
    _changed(lambda: places.drain(actor_of(sender), context.clock.now()))
    context.feeds.changes.device_changed(device_id)
    return _model(context, profile)


@router.post("/devices/{device_id}/undrain", responses=documented(404, 409, 422))
async def undrain_device(device_id: DeviceId, context: Context, sender: ServerManager) -> DeviceModel:  # noqa: ARG001 - any of the server
    """Give a device new tasks again."""
    profile, places = _device(context, device_id)
    _changed(places.resume)
    context.feeds.changes.device_changed(device_id)
    return _model(context, profile)


def _device(context: ApiContext, device_id: str) -> tuple[AgentProfile, Places]:
    profile, places = context.client.fleet.get(device_id), context.drains.get(device_id)
    if profile is None:
        raise Problem(404, f"there is no device {device_id!r}")
    if places is None or profile.kind in CHILD_KINDS:
        raise Problem(409, f"device {device_id!r} has no queue that could wait: its tasks are child runs, or its fleet has no name")
    return profile, places


def _changed(change: Callable[[], None]) -> None:
    try:
        change()
    except OSError as error:
        raise Problem(503, f"the files of the device cannot be written: {error.strerror}") from None


def _model(context: ApiContext, profile: AgentProfile) -> DeviceModel:
    places = context.drains.get(profile.device_id)
    drain = places.draining() if places else None
    return DeviceModel.model_validate(
        {
            **msgspec.structs.asdict(profile),
            "skills": msgspec.to_builtins(profile.skills),
            "draining": drain is not None,
            "draining_by": drain.by if drain else "",
        }
    )


@router.get("/machines", responses=documented())
async def list_machines(context: Context, sender: Reader) -> MachineList:  # noqa: ARG001 - any reader
    """Return the machines, with their states."""
    return MachineList(machines=[_machine_model(form.machine) for form in context.client.forms.values()])


def _machine_model(machine: Machine[Any]) -> MachineModel:
    alike: dict[tuple[str, tuple[str, ...], bool], list[str]] = {}
    for state, found in machine.table.items():
        for event, row in found.items():
            alike.setdefault((kind_of(event), tuple(sorted(row.to)), row.internal), []).append(str(state))
    rows = [RowModel(event=event, states=states, to=list(to), stays=stays) for (event, to, stays), states in alike.items()]
    return MachineModel.model_validate({**machine_data(machine), "submits": machine.name == CONSTELLATION_AGENT.name, "rows": rows})
