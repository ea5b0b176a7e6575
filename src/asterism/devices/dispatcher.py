"""The dispatcher queues attempts for devices.

It decides *when* a device starts an attempt and *for how long* it may run: slots, fair order,
timeouts, deadlines, lost devices. It does not retry, choose devices, or know the reason for an
attempt.

An attempt is *waiting*, then *performing*, then over. It waits for a slot, and for one of the
device's places that all processes share (``places``). While it performs, it may be *stopped*
(timeout, deadline, cancel, device lost): the device's coroutine is cancelled, which kills the
attempt. The caller gets its result when the coroutine has ended, so that nothing of the attempt
still runs when the next one starts. A device that does not end within the grace period is stuck:
the caller gets its result anyway, and the slot stays occupied until the device ends.

Each attempt is performed in a task of a group that the dispatcher owns, because it must be able to
outlive its caller. Everything else happens in callbacks of the loop: no task waits in a queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from functools import partial
from types import TracebackType
from typing import Self

from asterism.constellation.task import ErrorCode, TaskError
from asterism.devices.places import LockedPlace, Places
from asterism.devices.queue import FairQueue, Ticket
from asterism.devices.throttle import Throttle
from asterism.errors import InvalidInput, how_to_write_there
from asterism.kernel.machine import Event
from asterism.machines.constellation_agent.events import DeviceFound, DeviceLost
from asterism.runtime.ports.device import Attempt, AttemptResult, AttemptSigns, Device

DEFAULT_QUEUE_LIMIT = 10_000
DEFAULT_GRACE_S = 10.0
PLACES_POLL_S = 0.5
"""Seconds between two looks at the places of a device, while other processes have them all."""


Listener = Callable[[Event, str], None]
"""Receives a ``DeviceLost`` or ``DeviceFound``, and the device as its actor."""


class _Item:
    """An attempt, and the ``Signs`` of it that its device gets.

    ``ticket`` is set while it waits, ``task`` while it runs, ``stopped`` if it has to end.
    """

    __slots__ = ("_signs", "attempt", "context", "end", "over", "place", "stopped", "task", "throttle", "ticket", "timers")

    def __init__(self, attempt: Attempt, signs: AttemptSigns, end: asyncio.Future[AttemptResult]) -> None:
        self.attempt = attempt
        self.end = end
        self.throttle = Throttle(signs.progress)
        self.place: LockedPlace | None = None
        self._signs = signs
        self.context: Context = copy_context()  # another attempt's callback may start it
        self.ticket: Ticket | None = None
        self.task: asyncio.Task[AttemptResult] | None = None
        self.stopped: TaskError | None = None
        self.timers: list[asyncio.TimerHandle] = []
        self.over = False

    def progress(self, fraction: float | None = None, message: str = "") -> None:
        self.throttle.report(fraction, message)

    def queued(self, reason: str = "") -> None:
        self._signs.queued(reason)

    async def begun(self) -> None:
        await self._signs.begun()

    async def attached(self, handle: str) -> None:
        await self._signs.attached(handle)

    def finish(self, end: AttemptResult) -> None:
        """Return the result to the caller, if it still waits; later results are dropped."""
        self.over = True
        self.throttle.close()
        for timer in self.timers:
            timer.cancel()
        if not self.end.done():
            self.end.set_result(end)


class _Lane:
    """A device with its slots and its queue.

    ``arrived`` are the attempts since the queue was last served, and ``serving`` serves it next.
    ``obstacle`` says why no place can be taken; empty if one can.
    """

    def __init__(self, device: Device, places: Places | None) -> None:
        self.device = device
        self.slots = device.profile.concurrency
        self.places = places
        self.waiting: FairQueue[_Item] = FairQueue()
        self.arrived: list[_Item] = []
        self.serving: asyncio.Handle | None = None
        self.performing: dict[asyncio.Task[AttemptResult], _Item] = {}
        self.lost = ""  # the reason; empty while the device is available
        self.obstacle = ""


class Dispatcher:
    """Performs attempts on the devices of a fleet. Use it as ``async with Dispatcher(…)``.

    Leaving the block stops all attempts and waits until they have ended, stuck ones included.

    Args:
        devices: by id; the profile's concurrency is read once.
        clock: returns seconds since the epoch, for deadlines.
        queue_limit: number of attempts that may wait for one device.
        grace_s: seconds that a stopped attempt may take to end before its slot counts as stuck.
        places: by device, its places that this process shares with others; none for a device that
            belongs to this process.

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
    ) -> None:
        self._lanes = {device_id: _Lane(device, places.get(device_id)) for device_id, device in devices.items()}
        for device_id, lane in self._lanes.items():
            if lane.slots < 1:
                raise InvalidInput(f"device {device_id!r}: concurrency is {lane.slots}; it must be at least 1")
        self._clock = clock
        self._queue_limit = queue_limit
        self._grace_s = grace_s
        self._listeners: list[Listener] = []
        self._group = asyncio.TaskGroup()
        self._open = False

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._loop = asyncio.get_running_loop()
        self._open = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open = False
        for lane in self._lanes.values():
            self._stop_all(lane, "cancelled", "the dispatcher was closed")
            if lane.places:
                lane.places.leave()
        # Without the error: with it, the group would cancel again, and disturb devices that are
        # killing attempts.
        await self._group.__aexit__(None, None, None)

    async def perform(self, attempt: Attempt, signs: AttemptSigns) -> AttemptResult:
        """Have its device perform an attempt, and return the result.

        Cancelling this call removes the attempt from the queue or kills it; the cancellation passes
        on when the attempt has ended or is stuck. Errors of the attempt are never raised.
        Progress is throttled (``throttle.py``). All signs are called in the loop and only before
        the end; ``queued`` where the attempt has to wait, and ``begun`` by the device.

        Errors in the result: ``timeout``, ``deadline``, ``device_lost``, ``crashed`` (the device
        raised); ``no_device`` (unknown device, or full queue); ``cancelled`` (the dispatcher is
        closed).
        """
        lane = self._lanes.get(attempt.device_id)
        refusal = self._refusal(lane, attempt)
        if lane is None or refusal is not None:
            return AttemptResult(error=refusal)
        item = _Item(attempt, signs, self._loop.create_future())
        if attempt.deadline is not None:
            item.timers.append(self._loop.call_later(attempt.deadline - self._clock(), self._deadline_passed, lane, item))
        item.ticket = lane.waiting.add(attempt.run_id, attempt.priority, attempt.issued, item)
        lane.arrived.append(item)
        if not lane.serving or isinstance(lane.serving, asyncio.TimerHandle):
            self._serve_soon(lane)  # not at once: of those that arrive together, the highest priority goes first
        try:
            return await item.end
        except asyncio.CancelledError:
            if not item.over:
                item.end = self._loop.create_future()  # the first one was cancelled with its caller
                self._stop(lane, item, TaskError(code="cancelled", message="cancelled by its run"))
                await item.end
            raise

    def lose(self, device_id: str, why: str = "it does not answer") -> None:
        """Mark a device as lost: its attempts end with ``device_lost``, and so do new ones at once.

        No device does so itself today: only the simulation calls this.

        Raises:
            InvalidInput: no such device.
        """
        lane = self._lane(device_id)
        if lane.lost:
            return
        lane.lost = f"device {device_id!r} is lost: {why}"
        self._stop_all(lane, "device_lost", lane.lost)
        self._notify(DeviceLost(device=device_id, reason=lane.lost))

    def find(self, device_id: str) -> None:
        """Mark a lost device as available again. Its stuck slots stay occupied.

        Raises:
            InvalidInput: no such device.
        """
        lane = self._lane(device_id)
        if lane.lost:
            lane.lost = ""
            self._notify(DeviceFound(device=device_id))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener, in the event loop, when a device is lost or found.

        Return a function that removes the listener.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def initial_events(self) -> list[tuple[Event, str]]:
        """Return events for a run right after each acquisition: a ``DeviceLost`` for each lost device."""
        return [(DeviceLost(device=device_id), _actor(device_id)) for device_id, lane in self._lanes.items() if lane.lost]

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

    # -- one lane, one item ------------------------------------------------------------------------

    def _lane(self, device_id: str) -> _Lane:
        try:
            return self._lanes[device_id]
        except KeyError:
            raise InvalidInput(self._unknown(device_id)) from None

    def _unknown(self, device_id: str) -> str:
        return f"there is no device {device_id!r}; the fleet has {', '.join(map(repr, self._lanes)) or 'none'}"

    def _refusal(self, lane: _Lane | None, attempt: Attempt) -> TaskError | None:
        """Return why the attempt cannot even wait, or None if it can."""
        if not self._open:
            return TaskError(code="cancelled", message="the dispatcher is not open")
        if lane is None:
            return TaskError(code="no_device", message=self._unknown(attempt.device_id))
        if lane.lost:
            return TaskError(code="device_lost", message=lane.lost)
        if attempt.deadline is not None and attempt.deadline <= self._clock():
            return TaskError(code="deadline", message="its deadline passed before it was queued")
        if len(lane.waiting) + len(lane.performing) >= self._queue_limit + lane.slots:
            message = f"device {attempt.device_id!r} is overloaded: its queue is full with {len(lane.waiting)} attempts"
            return TaskError(code="no_device", message=message)
        return None

    def _serve_soon(self, lane: _Lane, after_s: float = 0.0) -> None:
        if lane.serving:
            lane.serving.cancel()
        lane.serving = self._loop.call_later(after_s, self._serve, lane) if after_s else self._loop.call_soon(self._serve, lane)

    def _serve(self, lane: _Lane) -> None:
        """Start attempts while there are slots and places."""
        if lane.serving:
            lane.serving.cancel()
            lane.serving = None
        if lane.places and not lane.waiting and not lane.performing:
            lane.places.leave()
        while lane.waiting and len(lane.performing) < lane.slots:
            place = None
            if lane.places:
                try:
                    if lane.places.is_turn_over(self._loop.time()):
                        self._serve_soon(lane, 1.5 * PLACES_POLL_S)
                        break
                    place = lane.places.take()
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

    def _wait_for_room(self, lane: _Lane, places: Places, error: OSError) -> None:
        """Look again later for places whose files cannot be used now; the next attempt reports the reason once."""
        where = f"the places of device {lane.device.profile.device_id!r} in {places.folder}"
        why = f"{where} cannot be locked: {error.strerror}; {how_to_write_there(error)}"
        if why != lane.obstacle:
            lane.obstacle = why
            lane.waiting.first().queued(why)
        self._serve_soon(lane, PLACES_POLL_S)

    def _start(self, lane: _Lane, item: _Item, place: LockedPlace | None) -> None:
        item.place = place
        item.ticket = None
        item.task = task = self._group.create_task(_perform(lane.device, item), context=item.context)
        lane.performing[task] = item
        task.add_done_callback(partial(self._ended, lane, item))
        timeout_s = item.attempt.timeout_s
        if timeout_s is not None:
            error = TaskError(code="timeout", message=f"it took longer than its timeout of {timeout_s:g} s")
            item.timers.append(self._loop.call_later(timeout_s, self._stop, lane, item, error))

    def _ended(self, lane: _Lane, item: _Item, task: asyncio.Task[AttemptResult]) -> None:
        """Return the result to the caller, and give the slot to the next attempt."""
        del lane.performing[task]
        if item.place:
            item.place.release()
        if task.cancelled():
            error = item.stopped or TaskError(code="crashed", message="the device cancelled its own task")
            item.finish(AttemptResult(error=error))
        elif task.exception() is None:
            item.finish(AttemptResult(error=item.stopped) if item.stopped else task.result())
        self._serve(lane)

    def _deadline_passed(self, lane: _Lane, item: _Item) -> None:
        if item.ticket is not None:
            message = f"its deadline passed while it waited for device {item.attempt.device_id!r}"
        else:
            message = "its deadline passed while it was performed"
        self._stop(lane, item, TaskError(code="deadline", message=message))

    def _stop(self, lane: _Lane, item: _Item, error: TaskError) -> None:
        """Stop an item with an error.

        The first error counts; a result that exists already takes precedence.
        """
        if item.ticket is not None:
            lane.waiting.remove(item.ticket)
            item.ticket = None
            item.finish(AttemptResult(error=error))
        elif item.stopped is None and item.task is not None and item.task.cancel():
            item.stopped = error
            item.timers.append(self._loop.call_later(self._grace_s, self._give_up, item))

    def _stop_all(self, lane: _Lane, code: ErrorCode, message: str) -> None:
        error = TaskError(code=code, message=message)
        for item in lane.waiting.clear():
            item.ticket = None
            item.finish(AttemptResult(error=error))
        for item in list(lane.performing.values()):
            self._stop(lane, item, error)

    def _give_up(self, item: _Item) -> None:
        """Return the error to the caller after the grace period; the slot is stuck."""
        stuck = f"device {item.attempt.device_id!r} was stopped, has not ended after {self._grace_s:g} s, and may still be running"
        if item.stopped is not None:
            item.finish(AttemptResult(error=TaskError(code=item.stopped.code, message=f"{item.stopped.message}; {stuck}")))

    def _notify(self, event: DeviceLost | DeviceFound) -> None:
        for listener in tuple(self._listeners):
            listener(event, _actor(event.device))


def _actor(device_id: str) -> str:
    return f"device:{device_id}"


async def _perform(device: Device, item: _Item) -> AttemptResult:
    """Perform an attempt in a task that ends only with an ``AttemptResult`` or by cancellation."""
    try:
        return await device.perform(item.attempt, item)
    except Exception as error:  # boundary: a device may raise anything, and the attempt's result reports it
        message = f"device {item.attempt.device_id!r} failed: {type(error).__name__}: {error}"
        if item.stopped is not None:
            item.stopped = TaskError(code=item.stopped.code, message=f"{item.stopped.message}; then {message}")
        return AttemptResult(error=TaskError(code="crashed", message=message))
