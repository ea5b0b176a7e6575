"""The dispatcher queues attempts for devices.

It decides *when* a device starts an attempt and *for how long* it may run: slots, fair order,
timeouts, deadlines, lost devices. It does not retry, choose devices, or know the reason for an
attempt.

An attempt is *waiting*, then *performing*, then over. It waits for a slot, and for one of the
device's places that all processes share (``places``). While it performs, it may be *stopped*
(timeout, deadline, cancel, device lost): the device's coroutine is cancelled. That kills the
attempt of a device in this process, and only detaches from that of a ``RemoteDevice``, which
``remote_stop`` ends. The caller gets its result when the coroutine has ended, so that nothing of
the attempt still runs here when the next one starts. A device that does not end within the grace
period is stuck: the caller gets its result anyway, and the slot stays occupied until the device
ends.

A device that finds its attempts again keeps them while it is lost: they wait, and are performed
again, with ``again``, when it is found. After its ``grace_s`` they end with ``device_lost``.

Each attempt is performed in a task of a group that the dispatcher owns, because it must be able to
outlive its caller. Everything else happens in callbacks of the loop: no task waits in a queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Self

import msgspec

from asterism.devices.attempts.secrets import hidden
from asterism.devices.dispatch.lane import FLAPPING_S, Lane, LaneItem, guard_refusal
from asterism.devices.dispatch.places import LockedPlace, Places
from asterism.devices.dispatch.remote import LOST_S, STOP_TRY_S, perform_masked, stop_once, stop_until, watch
from asterism.devices.fleet.fleet_file import UnopenedDevice
from asterism.devices.model.attempt import DeviceFound, DeviceLost, ErrorCode, TaskError
from asterism.devices.port import Attempt, AttemptResult, AttemptSigns, Device, RemoteDevice
from asterism.engine.control.run_control import FleetGuarded
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.machine import Event
from asterism.engine.kernel.profile import HERE, AgentProfile
from asterism.errors import InvalidInput, how_to_write_there

DEFAULT_QUEUE_LIMIT = 10_000
DEFAULT_GRACE_S = 10.0
PLACES_POLL_S = 0.5
"""Seconds between two looks at the places of a device, while other processes have them all."""
RETRIES = Backoff(1.0, 10.0)
"""Waits before an attempt is tried again that could not reach its device."""
LEFT = "it has left the fleet"
Listener = Callable[[Event, str], None]
"""Receives a ``DeviceLost`` or ``DeviceFound``, and the device as its actor."""


class Dispatcher:
    """Performs attempts on the devices of a fleet. Use it as ``async with Dispatcher(…)``.

    Leaving the block stops all attempts and waits until they have ended, stuck ones included. The
    attempts of remote devices go on where they run.

    Args:
        devices: by id; the profile's concurrency is read once.
        clock: returns seconds since the epoch, for deadlines.
        queue_limit: number of attempts that may wait for one device.
        grace_s: seconds that a stopped attempt may take to end before its slot counts as stuck.
        places: by device, its places that this process shares with others; none for a device that
            belongs to this process.
        lost_s: seconds that the stop of an attempt waits for a lost device.
        submitter_may_approve: as the fleet file has it.
        chance: returns a number from 0 to below 1, which shortens the waits before a device is watched or opened again.

    Raises:
        InvalidInput: a device with a concurrency below 1.
    """

    def __init__(
        self,
        devices: Mapping[str, Device],
        clock: Callable[[], float],
        *,
        queue_limit: int = DEFAULT_QUEUE_LIMIT,
        grace_s: float = DEFAULT_GRACE_S,
        places: Mapping[str, Places] = {},
        lost_s: float = LOST_S,
        submitter_may_approve: bool = True,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._lanes = {device_id: _new_lane(device_id, device, places.get(device_id)) for device_id, device in devices.items()}
        self._submitter_may_approve = submitter_may_approve
        self._removed: set[str] = set()
        self._listeners: list[Listener] = []
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._group = asyncio.TaskGroup()
        self._loop: asyncio.AbstractEventLoop
        self._open = False
        self._items: dict[str, LaneItem] = {}
        self._clock = clock
        self._queue_limit = queue_limit
        self._grace_s = grace_s
        self._lost_s = lost_s
        self._chance = chance

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._loop = asyncio.get_running_loop()
        self._open = True
        for device_id, lane in self._lanes.items():
            self._begin_watching(device_id, lane)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open = False
        for watching in self._watching.values():
            watching.cancel()
        for lane in self._lanes.values():
            lane.drop_timers()
            self._stop_all(lane, "cancelled", "the dispatcher was closed")
            if lane.places:
                lane.places.leave()
        # Without the error: with it, the group would cancel again, and disturb devices that are
        # killing attempts.
        await self._group.__aexit__(None, None, None)

    async def perform(self, attempt: Attempt, signs: AttemptSigns) -> AttemptResult:
        """Have its device perform an attempt, and return the result.

        Cancelling this call removes the attempt from the queue or stops it here; the cancellation
        passes on when the attempt has ended or is stuck. Errors of the attempt are never raised.
        Progress is throttled (``Throttle``). All signs are called in the loop and only before
        the end; ``queued`` where the attempt has to wait, and ``begun`` by the device.

        Errors in the result: ``timeout``, ``deadline``, ``device_lost``, ``crashed`` (the device
        raised); ``no_device`` (unknown device, or full queue); ``guarded`` (the present fleet
        does not let it begin, or another request was approved); ``cancelled`` (the dispatcher is closed).
        """
        lane = self._lanes.get(attempt.device_id)
        refusal = self._refusal(lane, attempt)
        if lane is None or refusal is not None:
            return AttemptResult(error=refusal)
        item = LaneItem(attempt, signs, self._loop.create_future())
        if attempt.deadline is not None:
            item.timers.append(self._loop.call_later(attempt.deadline - self._clock(), self._deadline_passed, lane, item))
        self._items[attempt.key] = item
        lane.arrived.append(item)
        self._enqueue(lane, item)
        try:
            return await item.end
        except asyncio.CancelledError:
            if not item.over:
                item.end = self._loop.create_future()  # the first one was cancelled with its caller
                self._stop(lane, item, TaskError(code="cancelled", message="cancelled by its run"))
                await item.end
            raise

    async def stop(self, attempt: Attempt, until: float) -> str:
        """End an attempt for good where it runs, once nothing of this process performs it.

        It is tried until the device has been available for its ``grace_s``, or lost for ``lost_s``, or
        until an epoch second.

        Return what may still run, and where, in words; empty if nothing does.
        """
        if item := self._items.get(attempt.key):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._grace_s):
                    await item.released.wait()
            attempt = msgspec.structs.replace(attempt, handle=attempt.handle or item.attempt.handle)
        lane = self._lanes.get(attempt.device_id)
        if lane is None or lane.remote is None:
            return f"{attempt.task_id} may still run on {attempt.device_id}, which this process cannot reach"
        return await stop_until(lane, lane.remote, attempt, lambda: until - self._clock(), self._lost_s)

    async def has_gone_on(self, attempt: Attempt) -> bool:
        """Ask the device of an attempt that waits for an answer whether it has gone on; it needs no place for that."""
        lane = self._lanes.get(attempt.device_id)
        if lane is None or lane.lost or lane.remote is None:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TRY_S):
                return await lane.remote.has_gone_on(attempt)
        return False

    # -- the fleet ---------------------------------------------------------------------------------

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
        self._lanes[device_id] = lane = _new_lane(device_id, device, places)
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
        opened = {name: lane.profile for name, lane in self._lanes.items() if not isinstance(lane.device, UnopenedDevice)}
        guarded = FleetGuarded(
            guards={name: profile.guards for name, profile in opened.items()},
            skills={
                name: tuple(skill.name for skill in profile.skills) for name, profile in opened.items() if profile.skills and name != HERE
            },
            submitter_may_approve=self._submitter_may_approve,
        )
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

    def serves(self, device_id: str, lane: Lane) -> bool:
        """Return True while the dispatcher is open and a device has this lane."""
        return self._open and self._lanes.get(device_id) is lane

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
            watching = watch(lane.remote, _LaneNotices(self, device_id, lane), self._chance)
            self._watching[device_id] = self._group.create_task(watching, name=f"watches {device_id}")

    async def _open_later(self, device_id: str, lane: Lane, unopened: UnopenedDevice) -> None:
        """Put the device into its lane as soon as it can be opened."""
        lane.device = device = await unopened.opened(lambda why: self.lose(device_id, why), self._chance)
        if why := device.unreachable:
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

    # -- one lane, one item ------------------------------------------------------------------------

    def _refusal(self, lane: Lane | None, attempt: Attempt) -> TaskError | None:
        """Return why the attempt cannot even wait, or None if it can."""
        if not self._open:
            return TaskError(code="cancelled", message="the dispatcher is not open")
        if lane is None:
            return TaskError(code="no_device", message=self._unknown(attempt.device_id))
        if lane.lost and lane.grace is None:
            return TaskError(code="device_lost", message=lane.lost)
        if attempt.deadline is not None and attempt.deadline <= self._clock():
            return TaskError(code="deadline", message="its deadline passed before it was queued")
        if len(lane.waiting) + len(lane.performing) >= self._queue_limit + lane.slots:
            message = f"device {attempt.device_id!r} is overloaded: its queue is full with {len(lane.waiting)} attempts"
            return TaskError(code="no_device", message=message)
        return None

    def _enqueue(self, lane: Lane, item: LaneItem) -> None:
        item.ticket = lane.waiting.add(item.attempt.run_id, item.attempt.priority, item.attempt.issued, item)
        if not lane.serving or isinstance(lane.serving, asyncio.TimerHandle):
            self._serve_soon(lane)  # not at once: of those that arrive together, the highest priority goes first

    def _serve_soon(self, lane: Lane, after_s: float = 0.0) -> None:
        if lane.serving:
            lane.serving.cancel()
        lane.serving = self._loop.call_later(after_s, self._serve, lane) if after_s else self._loop.call_soon(self._serve, lane)

    def _serve(self, lane: Lane) -> None:
        """Start attempts while there are slots and places."""
        if lane.serving:
            lane.serving.cancel()
            lane.serving = None
        if lane.places and not lane.waiting and not lane.performing:
            lane.places.leave()
        while lane.waiting and not lane.lost and len(lane.performing) < lane.slots:
            place = None
            if (wait_s := lane.not_before - self._loop.time()) > 0:
                self._serve_soon(lane, wait_s)
                break
            if lane.places:
                try:
                    if lane.places.is_turn_over(self._loop.time()):
                        self._serve_soon(lane, 1.5 * PLACES_POLL_S)
                        break
                    place = lane.places.take(is_new=not lane.waiting.first().attempt.again)
                except OSError as error:
                    self._wait_for_room(lane, lane.places, error)
                    break
                lane.obstacle = ""
                if place is None:
                    self._serve_soon(lane, PLACES_POLL_S)
                    break
            self._start(lane, lane.waiting.take(), place)
        for item in lane.arrived:
            if item.ticket is not None:
                item.queued()
        lane.arrived.clear()

    def _wait_for_room(self, lane: Lane, places: Places, error: OSError) -> None:
        """Look again later for places whose files cannot be used now; the next attempt reports the reason once."""
        where = f"the places of device {lane.device.profile.device_id!r} in {places.folder}"
        why = f"{where} cannot be locked: {error.strerror}; {how_to_write_there(error)}"
        if why != lane.obstacle:
            lane.obstacle = why
            lane.waiting.first().queued(why)
        self._serve_soon(lane, PLACES_POLL_S)

    def _start(self, lane: Lane, item: LaneItem, place: LockedPlace | None) -> None:
        item.place = place
        item.ticket = None
        item.task = task = self._group.create_task(_perform(lane, item), context=item.context)
        lane.performing[task] = item
        task.add_done_callback(partial(self._ended, lane, item))
        timeout_s = item.attempt.timeout_s
        is_first, item.started_at = not item.started_at, self._loop.time()
        if timeout_s is not None and is_first:
            error = TaskError(code="timeout", message=f"it took longer than its timeout of {timeout_s:g} s")
            item.timers.append(self._loop.call_later(timeout_s, self._stop, lane, item, error))

    def _ended(self, lane: Lane, item: LaneItem, task: asyncio.Task[AttemptResult]) -> None:
        """Return the result to the caller, or perform the attempt again; give the slot to the next one."""
        del lane.performing[task]
        if item.place:
            item.place.release()
            item.place = None
        error = item.stopped
        if error is None and task.cancelled() and not item.detached:
            error = TaskError(code="crashed", message="the device cancelled its own task")
        if error is not None:
            self._end_with(lane, item, error)
        elif task.cancelled():
            self._perform_again(lane, item)
        elif task.exception() is None:
            end = task.result()
            if end.error is None or end.error.code != "device_lost" or not self._retries(lane, item):
                lane.retries = 0
                self._finish(item, end)
        self._serve(lane)

    def _end_with(self, lane: Lane, item: LaneItem, error: TaskError) -> None:
        """End an attempt with an error of its own; first end it where it runs."""
        if lane.remote is None or error.code not in ("timeout", "deadline", "crashed"):
            self._finish(item, AttemptResult(error=error))
            return
        stopping = self._group.create_task(_stop_remotely(lane.remote, item.attempt, error))
        lane.performing[stopping] = item

        def stopped(_: asyncio.Task[AttemptResult]) -> None:
            del lane.performing[stopping]
            self._finish(item, AttemptResult(error=error) if stopping.cancelled() else stopping.result())
            self._serve(lane)

        stopping.add_done_callback(stopped)

    def _retries(self, lane: Lane, item: LaneItem) -> bool:
        """Perform an attempt again that could not reach its device, within the grace period; return False after it."""
        now, grace_s = self._loop.time(), lane.profile.grace_s
        if not lane.keeps or not self._open:
            return False
        if not item.lost_at:
            item.lost_at, lane.retries = now, 0
        if now - item.lost_at >= grace_s:
            return False
        lane.retries += 1
        lane.not_before = now + RETRIES.wait_s(lane.retries)
        self._perform_again(lane, item)
        return True

    def _perform_again(self, lane: Lane, item: LaneItem) -> None:
        if item.late_stop is not None:
            self._end_with(lane, item, item.late_stop)
            return
        item.detached, item.is_attached, item.task = False, False, None
        item.attempt = msgspec.structs.replace(item.attempt, again=True)
        self._enqueue(lane, item)

    def _finish(self, item: LaneItem, end: AttemptResult) -> None:
        item.finish(end)
        if self._items.get(item.attempt.key) is item:
            del self._items[item.attempt.key]

    def _deadline_passed(self, lane: Lane, item: LaneItem) -> None:
        if item.ticket is not None:
            message = f"its deadline passed while it waited for device {item.attempt.device_id!r}"
        else:
            message = "its deadline passed while it was performed"
        self._stop(lane, item, TaskError(code="deadline", message=message))

    def _stop(self, lane: Lane, item: LaneItem, error: TaskError) -> None:
        """Stop an item with an error.

        The first error counts; a result that exists already takes precedence.
        """
        if item.ticket is not None:
            lane.waiting.remove(item.ticket)
            item.ticket = None
            self._finish(item, AttemptResult(error=error))
        elif item.stopped is None and item.task is not None and item.task.cancel():
            item.stopped = error
            item.timers.append(self._loop.call_later(self._grace_s, self._give_up, item))
        else:
            item.late_stop = item.late_stop or error

    def _stop_all(self, lane: Lane, code: ErrorCode, message: str) -> None:
        error = TaskError(code=code, message=message)
        for item in lane.waiting.clear():
            item.ticket = None
            self._finish(item, AttemptResult(error=error))
        for item in list(lane.performing.values()):
            self._stop(lane, item, error)

    def _give_up(self, item: LaneItem) -> None:
        """Return the error to the caller after the grace period; the slot is stuck."""
        stuck = f"device {item.attempt.device_id!r} was stopped, has not ended after {self._grace_s:g} s, and may still be running"
        if item.stopped is not None and not item.over:
            item.finish(AttemptResult.failed(item.stopped.code, f"{item.stopped.message}; {stuck}"))


async def _perform(lane: Lane, item: LaneItem) -> AttemptResult:
    """Perform an attempt in a task that ends only with an ``AttemptResult`` or by cancellation."""
    if why := guard_refusal(lane.profile, item.attempt):
        return AttemptResult.failed("guarded", why)
    try:
        if lane.remote is not None:
            return await perform_masked(lane.remote, item)
        return await lane.device.perform(item.attempt, item)
    except Exception as error:  # boundary: a device may raise anything, and the attempt's result reports it
        message = hidden(f"device {item.attempt.device_id!r} failed: {type(error).__name__}: {error}", item.secrets)
        if item.stopped is not None:
            item.stopped = TaskError(code=item.stopped.code, message=f"{item.stopped.message}; then {message}")
        else:
            item.stopped = TaskError(code="crashed", message=message)
        return AttemptResult(error=item.stopped)


async def _stop_remotely(device: RemoteDevice, attempt: Attempt, error: TaskError) -> AttemptResult:
    left = await stop_once(device, attempt)
    return AttemptResult(error=TaskError(code=error.code, message=f"{error.message}; {left}") if left else error)


class _LaneNotices:
    """The ``Notices`` of the device of a lane; they are ignored once it has left the fleet."""

    def __init__(self, dispatcher: Dispatcher, device_id: str, lane: Lane) -> None:
        self._dispatcher = dispatcher
        self._device_id = device_id
        self._lane = lane

    def lost(self, why: str) -> None:
        if self._dispatcher.serves(self._device_id, self._lane):
            self._dispatcher.lose(self._device_id, why)

    def found(self, profile: AgentProfile | None = None) -> None:
        if self._dispatcher.serves(self._device_id, self._lane):
            self._dispatcher.find(self._device_id, profile and msgspec.structs.replace(profile, device_id=self._device_id))


def _actor(device_id: str) -> str:
    return f"device:{device_id}"


def _new_lane(device_id: str, device: Device, places: Places | None) -> Lane:
    """Return the lane of a device. Raise InvalidInput if its concurrency is below 1."""
    lane = Lane(device, places)
    if lane.slots < 1:
        raise InvalidInput(f"device {device_id!r}: concurrency is {lane.slots}; it must be at least 1")
    if why := device.unreachable:
        lane.lost = f"device {device_id!r} is lost: {why}"
        lane.found.clear()
    return lane
