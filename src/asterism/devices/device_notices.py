"""Events that tell runs which devices are lost, and which are back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from asterism.devices.dispatcher import DeviceNotice, Dispatcher, Listener
from asterism.kernel.machine import Event
from asterism.machines.constellation_agent.events import DeviceFound, DeviceLost


def lost_device_events(dispatcher: Dispatcher, devices: Iterable[str]) -> list[tuple[Event, str]]:
    """Return the first events of a newly acquired run: a ``DeviceLost`` from each lost device."""
    return [(DeviceLost(device=device), _actor(device)) for device in devices if dispatcher.is_lost(device)]


def announcing_listener(announce: Callable[[Event, str], None]) -> Listener:
    """Return a dispatcher's listener that announces lost and found devices, but no stuck slots."""

    def listener(notice: DeviceNotice) -> None:
        if notice.kind == "lost":
            announce(DeviceLost(device=notice.device_id, reason=notice.message), _actor(notice.device_id))
        elif notice.kind == "found":
            announce(DeviceFound(device=notice.device_id), _actor(notice.device_id))

    return listener


def _actor(device: str) -> str:
    return f"device:{device}"
