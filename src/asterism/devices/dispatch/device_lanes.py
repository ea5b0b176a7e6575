"""The lanes of a dispatcher: its devices, and whether they are available."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from asterism.constellation.machine.events import DeviceFound, DeviceLost
from asterism.constellation.model.task import ErrorCode
from asterism.devices.dispatch.lane import FLAPPING_S, Lane
from asterism.devices.dispatch.places import Places
from asterism.devices.dispatch.watch import DeviceNotices, watch
from asterism.devices.fleet.unopened import UnopenedDevice
from asterism.devices.port import Device
from asterism.engine.control.run_control import FleetGuarded
from asterism.engine.kernel.machine import Event
from asterism.engine.kernel.profile import AgentProfile
from asterism.errors import InvalidInput

LEFT = "it has left the fleet"
Listener = Callable[[Event, str], None]
"""Receives a ``DeviceLost`` or ``DeviceFound``, and the device as its actor."""


class DeviceLanes(ABC):
    """The devices of a fleet: lost, found, added and removed while runs go on.

    Args:
        lanes: by id of the device.
        submitter_may_approve: as the fleet file has it.
    """

    def __init__(self, lanes: Mapping[str, Lane], *, submitter_may_approve: bool = True) -> None:
        self._lanes = dict(lanes)
        self._submitter_may_approve = submitter_may_approve
        self._removed: set[str] = set()
        self._listeners: list[Listener] = []
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup = asyncio.TaskGroup()
        self._loop: asyncio.AbstractEventLoop
        self._open = False

    @abstractmethod
    def _stop_all(self, lane: Lane, code: ErrorCode, message: str) -> None:
        """End all attempts of a device with an error."""

    @abstractmethod
    def _serve_soon(self, lane: Lane, after_s: float = 0.0) -> None:
        """Start attempts that wait for a device."""

    def lose(self, device_id: str, why: str = "it does not answer") -> None:
        """Mark a device as lost: its attempts end with ``device_lost``, and so do new ones at once.

        A device that finds its attempts again keeps them for its ``grace_s``. One that was lost
        five times in ten minutes is available again once it was there for ten minutes.

        Raises:
            InvalidInput: no such device.
        """
        lane = self._lane(device_id)
        is_known = bool(lane.lost)
        if is_known and lane.quarantine is None:
            return
        lane.losses.append(self._loop.time() if self._open else 0.0)
        lane.lost = f"device {device_id!r} is lost: {why}"
        lane.found.clear()
        lane.drop_timers()
        if lane.keeps and self._open:
            lane.grace = self._loop.call_later(lane.profile.grace_s, self._grace_passed, lane)
            for item in lane.performing.values():
                item.detach()
        else:
            self._stop_all(lane, "device_lost", lane.lost)
        if not is_known:
            self._notify(DeviceLost(device=device_id, reason=lane.lost))

    def find(self, device_id: str, profile: AgentProfile | None = None) -> None:
        """Mark a lost device as available again, and take its profile if it has another one.

        Its stuck slots stay occupied.

        Raises:
            InvalidInput: no such device.
        """
        lane = self._lane(device_id)
        is_changed = lane.take_profile(profile)
        if not lane.lost and is_changed:
            self._notify(DeviceFound(device=device_id, profile=lane.profile))
            self._serve_soon(lane)
        elif lane.lost and not lane.is_flapping(self._loop.time()):
            self._recover(lane)
        elif lane.lost and lane.quarantine is None:
            lane.lost = f"device {device_id!r} was lost {len(lane.losses)} times within {FLAPPING_S:g} s, and is used again after as long"
            lane.quarantine = self._loop.call_later(FLAPPING_S, self._recover, lane)

    def add(self, device: Device, places: Places | None = None) -> None:
        """Add a device to the fleet; the runs under way learn of it.

        Raises:
            InvalidInput: the fleet has a device of this id, or its concurrency is below 1.
        """
        device_id = device.profile.device_id
        if device_id in self._lanes:
            raise InvalidInput(f"there is a device {device_id!r} already")
        self._lanes[device_id] = lane = new_lane(device_id, device, places)
        lane.changed = True
        self._removed.discard(device_id)
        if self._open:
            self._begin_watching(device_id, lane)
        self._notify(DeviceFound(device=device_id, profile=lane.profile))

    def remove(self, device_id: str) -> None:
        """Take a device out of the fleet; its attempts end with ``device_lost``.

        Raises:
            InvalidInput: no such device.
        """
        lane = self._lane(device_id)
        del self._lanes[device_id]
        self._removed.add(device_id)
        if watching := self._watching.pop(device_id, None):
            watching.cancel()
        lane.drop_timers()
        lane.lost = f"device {device_id!r} is lost: {LEFT}"
        self._stop_all(lane, "device_lost", lane.lost)
        self._notify(DeviceLost(device=device_id, reason=LEFT, removed=True))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener for each device that is lost now, and, in the event loop, when one is lost or found.

        Return a function that removes the listener.
        """
        self._listeners.append(listener)
        for event in self.initial_events():
            listener(*event)
        return lambda: self._listeners.remove(listener)

    def initial_events(self) -> list[tuple[Event, str]]:
        """Return events about what has changed in the fleet since it was opened."""
        removed: list[Event] = [DeviceLost(device=device_id, reason=LEFT, removed=True) for device_id in sorted(self._removed)]
        changed = [DeviceFound(device=device_id, profile=lane.profile) for device_id, lane in self._lanes.items() if lane.changed]
        lost = [DeviceLost(device=device_id, reason=lane.lost) for device_id, lane in self._lanes.items() if lane.lost]
        return [(event, _actor(event.device)) for event in (*removed, *changed, *lost) if isinstance(event, DeviceLost | DeviceFound)]

    def first_events(self) -> list[tuple[Event, str]]:
        """Return events for a run right after each acquisition: what the fleet guards now, and ``initial_events``."""
        guards = {name: lane.profile.guards for name, lane in self._lanes.items() if not isinstance(lane.device, UnopenedDevice)}
        guarded = FleetGuarded(guards=guards, submitter_may_approve=self._submitter_may_approve)
        return [(guarded, "fleet"), *self.initial_events()]

    def queue_depth(self, device_id: str) -> int:
        """Return the number of attempts that wait for the device.

        InvalidInput if there is no such device.
        """
        return len(self._lane(device_id).waiting)

    def running(self, device_id: str) -> int:
        """Return the number of occupied slots, stuck ones included.

        InvalidInput if there is no such device.
        """
        return len(self._lane(device_id).performing)

    # -- one lane ----------------------------------------------------------------------------------

    def _lane(self, device_id: str) -> Lane:
        try:
            return self._lanes[device_id]
        except KeyError:
            raise InvalidInput(self._unknown(device_id)) from None

    def _unknown(self, device_id: str) -> str:
        return f"there is no device {device_id!r}; the fleet has {', '.join(map(repr, self._lanes)) or 'none'}"

    def _begin_watching(self, device_id: str, lane: Lane) -> None:
        if isinstance(lane.device, UnopenedDevice):
            opening = self._open_later(device_id, lane, lane.device)
            self._watching[device_id] = self._group.create_task(opening, name=f"opens {device_id}")
        elif lane.remote is not None:
            notices = DeviceNotices(device_id, self, lambda: self._open and self._lanes.get(device_id) is lane)
            self._watching[device_id] = self._group.create_task(watch(lane.remote, notices), name=f"watches {device_id}")

    async def _open_later(self, device_id: str, lane: Lane, unopened: UnopenedDevice) -> None:
        """Put the device into its lane as soon as it can be opened."""
        lane.device = device = await unopened.opened(lambda why: self.lose(device_id, why))
        if why := getattr(device, "unreachable", ""):
            self.lose(device_id, why)
        else:
            self.find(device_id, device.profile)
        self._begin_watching(device_id, lane)

    def _grace_passed(self, lane: Lane) -> None:
        lane.grace = None
        self._stop_all(lane, "device_lost", lane.lost)

    def _recover(self, lane: Lane) -> None:
        lane.drop_timers()
        lane.lost = ""
        lane.found.set()
        self._notify(DeviceFound(device=lane.profile.device_id, profile=lane.profile if lane.changed else None))
        self._serve_soon(lane)

    def _notify(self, event: DeviceLost | DeviceFound) -> None:
        for listener in tuple(self._listeners):
            listener(event, _actor(event.device))


def _actor(device_id: str) -> str:
    return f"device:{device_id}"


def new_lane(device_id: str, device: Device, places: Places | None) -> Lane:
    """Return the lane of a device. Raise InvalidInput if its concurrency is below 1."""
    lane = Lane(device, places)
    if lane.slots < 1:
        raise InvalidInput(f"device {device_id!r}: concurrency is {lane.slots}; it must be at least 1")
    if why := getattr(device, "unreachable", ""):
        lane.lost = f"device {device_id!r} is lost: {why}"
        lane.found.clear()
    return lane
