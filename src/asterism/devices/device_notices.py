"""What runs are told of the devices that carry out their tasks: which are lost, and which are back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from asterism.devices.dispatcher import DeviceNotice, Dispatcher, Listener
from asterism.kernel.machine import Event
from asterism.machines.constellation_agent.events import DeviceFound, DeviceLost


def lost_now(dispatcher: Dispatcher, devices: Iterable[str]) -> list[tuple[Event, str]]:
    """What a run must hear first: which of these devices are lost at present, and that each says so itself."""
    return [(DeviceLost(device=device), _actor(device)) for device in devices if dispatcher.is_lost(device)]


def announcing(announce: Callable[[Event, str], None]) -> Listener:
    """A listener of a dispatcher that announces what concerns the runs; a slot that is stuck does not."""

    def heard(notice: DeviceNotice) -> None:
        if notice.kind == "lost":
            announce(DeviceLost(device=notice.device_id, reason=notice.message), _actor(notice.device_id))
        elif notice.kind == "found":
            announce(DeviceFound(device=notice.device_id), _actor(notice.device_id))

    return heard


def _actor(device: str) -> str:
    return f"device:{device}"
