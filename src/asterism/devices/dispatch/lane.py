"""A device as the dispatcher sees it: its places, its fair queue, and the attempts that it performs, with their reports.

In a queue, runs take turns; within a run, higher priority goes first, then what was issued or arrived earlier.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context, copy_context
from typing import Generic, NamedTuple, TypeVar

import msgspec

from asterism.devices.attempts.secrets import hidden
from asterism.devices.dispatch.places import LockedPlace, Places
from asterism.devices.model.attempt import TaskError, request_shown
from asterism.devices.model.references import secrets_in
from asterism.devices.port import Attempt, AttemptResult, AttemptSigns, Device, RemoteDevice, finished
from asterism.engine.kernel.guards import GuardedWork, SkillGuard, digest_of, is_within, program_texts, refusal_of
from asterism.engine.kernel.profile import AgentProfile

MAX_LOSSES = 5
"""Losses within ``FLAPPING_S`` after which a device is quarantined."""
FLAPPING_S = 600.0
"""Seconds within which the losses of a device are counted, and that a quarantined one must stay available."""


REPORT_EVERY_S = 0.25
MAX_REPORTS = 500
MAX_MESSAGES = 20
MAX_MESSAGE_LENGTH = 500

Item = TypeVar("Item")
_Order = tuple[int, int, int, int]


class Ticket(NamedTuple):
    """The place of an item in the queue, to remove it.

    ``order`` is greatest for the item that is served first, and unique in its queue.
    """

    run_id: str
    order: _Order


class FairQueue(Generic[Item]):
    """A queue that is fair to all runs; the caller bounds it.

    Adding, taking and removing are O(log n), apart from one move in memory.
    """

    def __init__(self) -> None:
        self._size = 0
        self._arrivals = itertools.count()
        self._last_run = ""
        # By run, the next run first; the best item of a run is last in its list.
        self._waiting: OrderedDict[str, list[tuple[_Order, Item]]] = OrderedDict()

    def __len__(self) -> int:
        return self._size

    def add(self, run_id: str, priority: int, issued: tuple[int, int], item: Item) -> Ticket:
        """Add an item and return its ticket."""
        seq, index = issued
        order = (priority, -seq, -index, -next(self._arrivals))
        insort(self._waiting.setdefault(run_id, []), (order, item))
        self._size += 1
        return Ticket(run_id, order)

    def first(self) -> Item:
        """Return the next item. IndexError if there is none."""
        if not self._waiting:
            raise IndexError("an empty queue has no next item")
        if len(self._waiting) > 1 and self._last_run in self._waiting:
            # A run that emptied its share and came back may be first again, though it was served
            # last.
            self._waiting.move_to_end(self._last_run)
        return next(iter(self._waiting.values()))[-1][1]

    def take(self) -> Item:
        """Remove and return the next item. IndexError if there is none."""
        self.first()
        run_id, items = self._waiting.popitem(last=False)
        _, item = items.pop()
        if items:
            self._waiting[run_id] = items
        self._last_run = run_id
        self._size -= 1
        return item

    def remove(self, ticket: Ticket) -> None:
        """Remove the item of a ticket, which must be in the queue."""
        items = self._waiting[ticket.run_id]
        del items[bisect_left(items, (ticket.order,))]
        if not items:
            del self._waiting[ticket.run_id]
        self._size -= 1

    def clear(self) -> list[Item]:
        """Remove and return all items; the order of runs is undefined."""
        items = [item for waiting in self._waiting.values() for _, item in reversed(waiting)]
        self._waiting.clear()
        self._size = 0
        return items


class Throttle:
    """Passes on the first report at once, then at most one per ``REPORT_EVERY_S`` seconds.

    At most ``MAX_REPORTS`` are passed on in all.

    Reports in between are merged: the latest fraction, and the last ``MAX_MESSAGES`` messages in
    order, one per line, each cut at ``MAX_MESSAGE_LENGTH``, and the number of those that were left
    out. The last report is always passed on, at the latest by ``close``.
    """

    __slots__ = ("_closed", "_fraction", "_left_out", "_messages", "_next_at", "_passed", "_pending", "_sink", "_timer")

    def __init__(self, sink: Callable[[float | None, str], None]) -> None:
        self._sink = sink
        self._passed = 0
        self._next_at = 0.0
        self._pending = False
        self._fraction: float | None = None
        self._messages: deque[str] | None = None
        self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def report(self, fraction: float | None, message: str) -> None:
        """Accept a report. After ``close`` it is ignored, and so is a blank message without a fraction, as of an empty line."""
        if self._closed or (fraction is None and not message.strip()):
            return
        self._merge(fraction, message)
        if self._passed >= MAX_REPORTS - 1 or self._timer is not None:
            return  # the last report of all is left for close()
        loop = asyncio.get_running_loop()
        if self._passed == 0 or loop.time() >= self._next_at:
            self._pass_on()
        else:
            self._timer = loop.call_at(self._next_at, self._pass_on)

    def close(self) -> None:
        """Pass on what is pending, and nothing after it."""
        if self._pending and not self._closed:
            self._pass_on()
        self._closed = True

    def _merge(self, fraction: float | None, message: str) -> None:
        self._pending = True
        if fraction is not None:
            self._fraction = fraction
        if message.strip():
            if self._messages is None:
                self._messages = deque(maxlen=MAX_MESSAGES)
            self._left_out += len(self._messages) == MAX_MESSAGES
            self._messages.append(_cut(message))

    def _pass_on(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines = list(self._messages or ())
        if self._left_out:
            lines.insert(0, f"({self._left_out} earlier messages left out)")
        fraction = self._fraction
        self._pending = False
        self._fraction = None
        self._messages = None
        self._left_out = 0
        self._passed += 1
        self._next_at = asyncio.get_running_loop().time() + REPORT_EVERY_S
        self._sink(fraction, "\n".join(lines))


def _cut(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE_LENGTH else message[: MAX_MESSAGE_LENGTH - 1] + "…"


class LaneItem:
    """An attempt, and the ``Signs`` of it that its device gets.

    Attributes:
        attempt: the attempt, with the handle that the device has reported.
        ticket: set while it waits.
        task: the task that performs it, while it runs.
        stopped: the error with which it has to end, once it must.
        late_stop: the error of a stop that came when a result was there already; it counts if the
            attempt would be performed again.
        is_attached: True if the device has reported a handle since it was last started.
        detached: True if its device was lost while it was performed, and it is to be performed again.
        started_at: time of the loop at which it was last started; 0 before.
        lost_at: time of the loop since which it cannot reach its device; 0 after any sign of it.
        secrets: values to mask in what its device reports, by name.
        released: set when nothing of this process performs it any more.
    """

    __slots__ = (
        "_signs",
        "attempt",
        "context",
        "detached",
        "end",
        "is_attached",
        "late_stop",
        "lost_at",
        "over",
        "place",
        "released",
        "secrets",
        "started_at",
        "stopped",
        "task",
        "throttle",
        "ticket",
        "timers",
    )

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
        self.late_stop: TaskError | None = None
        self.is_attached = self.detached = False
        self.started_at = self.lost_at = 0.0
        self.timers: list[asyncio.TimerHandle] = []
        self.released = asyncio.Event()
        self.secrets: Mapping[str, str] = {}
        self.over = False

    def progress(self, fraction: float | None = None, message: str = "") -> None:
        self.lost_at = 0.0
        self.throttle.report(fraction, hidden(message, self.secrets))

    def queued(self, reason: str = "") -> None:
        self._signs.queued(reason)

    async def begun(self) -> None:
        await self._signs.begun()

    def attached(self, handle: str) -> Awaitable[None]:
        self.lost_at = 0.0
        recorded = self._signs.attached(handle) if not self.is_attached else finished()
        if not self.is_attached:
            self.is_attached, self.attempt = True, msgspec.structs.replace(self.attempt, handle=handle)
        if self.stopped is None and not (self.task is not None and self.task.cancelling()):
            return recorded
        given_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        given_up.cancel()  # nobody confirms the report of an attempt that was given up
        return given_up

    def detach(self) -> None:
        """Detach from the attempt of a lost device."""
        if self.stopped is None and self.task is not None:
            self.detached = True
            self.task.cancel()

    def finish(self, end: AttemptResult) -> None:
        """Return the result to the caller, if it still waits; later results are dropped."""
        self.over = True
        self.throttle.close()
        for timer in self.timers:
            timer.cancel()
        if self.ticket is None and (self.task is None or self.task.done()):
            self.released.set()
        if not self.end.done():
            self.end.set_result(end)


class Lane:
    """A device with its slots and its queue.

    Attributes:
        arrived: the attempts since the queue was last served.
        serving: serves the queue next.
        performing: the attempts that occupy a slot, by the task that performs or stops them.
        lost: the reason why no attempt starts; empty while the device is available.
        found: set while the device is available.
        losses: times of the loop of the last losses.
        grace: ends the attempts of a lost device; None if it keeps none, or no longer.
        quarantine: makes a device available that was lost too often; None while it is lost.
        changed: True if the device has reported another profile than it was opened with.
        obstacle: why no place can be taken; empty if one can.
        retries, not_before: how often in a row an attempt has been tried again that could not reach the
            device, and the time of the loop before the next try.
    """

    def __init__(self, device: Device, places: Places | None) -> None:
        self.device = device
        self.profile = device.profile
        self.slots = self.profile.concurrency
        self.places = places
        self.waiting: FairQueue[LaneItem] = FairQueue()
        self.arrived: list[LaneItem] = []
        self.serving: asyncio.Handle | None = None
        self.performing: dict[asyncio.Task[AttemptResult], LaneItem] = {}
        self.lost = ""
        self.found = asyncio.Event()
        self.found.set()
        self.losses: deque[float] = deque(maxlen=MAX_LOSSES)
        self.grace: asyncio.TimerHandle | None = None
        self.quarantine: asyncio.TimerHandle | None = None
        self.changed = False
        self.obstacle = ""
        self.retries, self.not_before = 0, 0.0

    @property
    def remote(self) -> RemoteDevice | None:
        """Return the device if its attempts run outside this process; else None."""
        return self.device if isinstance(self.device, RemoteDevice) else None

    @property
    def keeps(self) -> bool:
        """Return True if the device finds its attempts again, so that they outlast a loss."""
        return self.remote is not None and self.profile.reattach

    def is_flapping(self, now: float) -> bool:
        """Return True if the device was lost too often within ``FLAPPING_S`` seconds."""
        return len(self.losses) == MAX_LOSSES and now - self.losses[0] <= FLAPPING_S

    def take_profile(self, profile: AgentProfile | None) -> bool:
        """Take another profile of the device; return True if it differs from the last one."""
        if profile is None or profile == self.profile or profile.concurrency < 1:
            return False
        self.profile, self.slots, self.changed = profile, profile.concurrency, True
        return True

    def drop_timers(self) -> None:
        """Drop the timers of a lost device."""
        for timer in filter(None, (self.grace, self.quarantine)):
            timer.cancel()
        self.grace = self.quarantine = None


def guard_refusal(profile: AgentProfile, attempt: Attempt) -> str:
    """Return why the present fleet does not let an attempt begin, which a run may have scheduled under an earlier one; empty if it does."""
    if attempt.handle or attempt.leg > 1:  # it has begun
        return ""
    guard = profile.guards.of(attempt.skill)
    work = GuardedWork(
        device=attempt.device_id,
        skill=attempt.skill,
        arguments=attempt.arguments,
        secrets=secrets_in([attempt.arguments if attempt.secrets else {}, attempt.env]) if attempt.is_foreign else (),
        env=attempt.env,
        folder=attempt.task_folder,
        is_foreign=attempt.is_foreign,
    )
    if attempt.approval and digest_of(request_shown(attempt)) != attempt.approval:
        return "it is no longer the request that was approved; retry the task to be asked"
    asks = "the fleet file asks for an approval now, and nobody has approved this attempt; retry the task to be asked"
    refusal = str(refusal_of(guard, work)) or (_outside(guard, attempt) if profile.kind == "local" else "")
    return refusal or (asks if guard.approval and not attempt.approval else "")


def _outside(guard: SkillGuard, attempt: Attempt) -> str:
    """Return why a path of an attempt on this computer leaves its folder by a link; empty if none does."""
    for name, folders in guard.within.items():
        for text, folder in itertools.product(program_texts(attempt.arguments.get(name)), folders):
            if not is_within(there := os.path.realpath(text), os.path.realpath(folder)):
                return f"{name} {text!r:.80} is a link to {there!r:.80}, which is not within {folder}"
    return ""
