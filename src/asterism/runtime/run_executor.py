"""One run in the hands of its owner: take what has arrived, step, append, perform.

This is the only loop that moves a run. What happens between two appends is pure (``kernel.run``);
what happens after one is somebody else's (performers, the store).
"""

from __future__ import annotations

import asyncio
import collections
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from asterism.errors import AsterismError, IllegalTransition, Refused, RunNewer, RunStuck, StaleOwner, StoreUnavailable, UnknownMachine
from asterism.kernel.data import error_text, read_back
from asterism.kernel.journal import Entry, JournalMismatch, version_of
from asterism.kernel.machine import Effect, EffectResult, Event, RecoveryPolicy, kind_of
from asterism.kernel.packing import packer
from asterism.kernel.run import Run
from asterism.machines.run_control import BatchEnded, CancelEffect, EffectCancelled, OwnershipAcquired
from asterism.runtime.arrivals import Arrival, replacement
from asterism.runtime.clock import Clock
from asterism.runtime.effect_results import effect_result, interrupted_result
from asterism.runtime.inquiries import closed_inquiries, opened_inquiries
from asterism.runtime.ports.performer import Performer
from asterism.runtime.ports.store import ACCEPTED, Commit, InboxRow, Store
from asterism.runtime.run_status import is_stuck, status_of
from asterism.runtime.snapshots import SnapshotPolicy, load

APPEND_TRIES = 8
"""Times an append is tried before the run is let go, at growing intervals (about half a minute in all)."""
LOOK_AGAIN_S = (0.001, 1.0)
"""First and longest wait before a time that has passed is looked at again, where ``BatchEnded`` has found nothing to do at it."""
CLOCK_DRIFT_S = 0.05
"""How far the wall clock may move away from the loop's time before a timer is set anew."""
MAX_BATCH = 1000
"""Arrivals taken in one batch; the rest wait for the next."""
_STOPS = (JournalMismatch, RunNewer, RunStuck, StaleOwner, StoreUnavailable, UnknownMachine)
"""Errors of a child that are no outcome of it: this program cannot go on with it now, another one may."""


class RunExecutor:
    """The live state of one owned run.

    Args:
        run: the run, replayed to the end of its journal.
        epoch: of the claim.
        freezer: says when a snapshot is due.
        tell: told of the entries that became durable.
        say: told what is wrong that the session is dealing with.
        group: owns the tasks that perform effects.
        rested: told when it begins and ends to wait for nothing but people.
    """

    def __init__(
        self,
        run: Run[Any],
        epoch: int,
        *,
        store: Store,
        clock: Clock,
        performers: Mapping[type[Effect], Performer],
        freezer: SnapshotPolicy,
        tell: Callable[[str, Sequence[Entry]], None],
        say: Callable[[str, str], None],
        group: asyncio.TaskGroup,
        rested: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self.run = run
        self.epoch = epoch
        self._store = store
        self._clock = clock
        self._performers = performers
        self._freezer = freezer
        self._tell = tell
        self._say_of = say
        self._group: asyncio.TaskGroup = group
        self._rested = rested
        self._packer, self._version = packer(run.machine), version_of(run.machine)
        self._arrived: collections.deque[Arrival] = collections.deque()
        self._anything = asyncio.Event()
        self._performing: dict[str, asyncio.Task[None]] = {}
        self._taken: set[str] = set()  # kept: a row that was read before it was folded may be delivered after
        self._unreadable: list[tuple[str, str]] = []
        self._looked_at = -math.inf  # when BatchEnded has last found nothing to do
        self._again_s = 0.0
        self._timer: tuple[float, asyncio.TimerHandle] | None = None  # with the time that it is set for
        self._lost: AsterismError | None = None

    # -- arriving ----------------------------------------------------------------------------------

    def arrive(self, event: Event, actor: str, key: str = "", by: str = "") -> None:
        """Something has happened; it is taken with the next batch."""
        self._arrived.append(Arrival(event, actor, key, by))
        self._anything.set()

    def deliver(self, rows: Iterable[InboxRow]) -> None:
        """Rows of the inbox; each is taken once however often it is delivered."""
        for row in rows:
            if row.key in self._taken:
                continue
            self._taken.add(row.key)
            try:
                self.arrive(self._packer.event(row.kind, row.body), row.actor, row.key)
            except ValueError as error:
                self._unreadable.append((row.key, str(error)))
                self._anything.set()

    # -- the loop ----------------------------------------------------------------------------------

    async def claim(self, owner: str) -> None:
        """Write the claim and take what waits in the inbox, then redo what the last owner left without an outcome, each by its rule.

        The inbox first: a cancel that was written while nobody owned the run must not find its work begun again.
        """
        left, called_off = dict(self.run.outstanding), set(self.run.cancelled_effects)
        is_new = self.run.seq == 1  # nobody has owned it yet, so nothing that its first entry asks for was begun
        self.deliver(await self._store.inbox([self.run.id]))
        redone = tuple(
            key
            for key, it in left.items()
            if it.performed_outside and it.recovery_policy is not RecoveryPolicy.DO_NOT_RETRY and key not in called_off
        )
        claimed = OwnershipAcquired(epoch=self.epoch, owner=owner, retried=redone)
        await self._step([Arrival(claimed, "system"), *self._take_arrived()], drain=False)
        for effect_id, effect in left.items():
            if effect_id in called_off:
                self.arrive(interrupted_result(effect_id, effect, self._called_off()), "system")
            elif effect_id not in self.run.outstanding or effect_id in self.run.cancelled_effects:
                continue  # settled by what was in the inbox
            elif effect.recovery_policy is RecoveryPolicy.DO_NOT_RETRY and not is_new:
                self.arrive(interrupted_result(effect_id, effect, "its owner's process ended while it was under way"), "system")
            else:
                self._perform(effect_id, effect)

    async def drive(self, *, park: bool) -> bool:
        """Go on until the run has ended, or (with ``park``) nothing is under way and only people can move it.

        Returns:
            True where something has arrived while it was released, as from a child that has just taken an answer: own it again.

        Raises:
            StaleOwner: somebody else has claimed the run, or a child of it.
            RunNewer: a newer program has written to a child of it.
            StoreUnavailable: a journal could not be written, again and again.
            RunStuck: nothing that could happen would move it on, or a child of it.
            JournalMismatch: the journal of a child cannot be replayed.
        """
        while True:
            await self._step(self._take_arrived(), drain=True)
            idle = self._is_idle()
            if self.run.ended or (park and idle):
                if await self._store.release(self.run.id, self.epoch):
                    return bool(self._arrived) and not self.run.ended
                self.deliver(await self._store.inbox([self.run.id]))  # what is for a child the next poll brings to it
            if is_stuck(self.run) and not (self._arrived or self._unreadable or self._lost):
                raise RunStuck(self.run.id, self.run.machine.name, self.run.state)
            if idle:
                self._rested(True)  # noqa: FBT003 - it is the news
            await self._wait()
            if idle:
                self._rested(False)  # noqa: FBT003
            if self._lost is not None:
                raise self._lost

    def _is_idle(self) -> bool:
        """True when nothing is under way but children that wait for people, or are paused."""
        busy = self._performing.keys() - self.run.memory.blocked_children
        return not self._arrived and not busy and status_of(self.run) in ("paused", "waiting")

    def _take_arrived(self) -> list[Arrival]:
        count = min(len(self._arrived), MAX_BATCH)
        return [self._arrived.popleft() for _ in range(count)]

    async def _wait(self) -> None:
        """Until something arrives, or the machine's next time has come."""
        if not self._arrived:
            await asyncio.sleep(0)  # what ends without waiting has ended then, all of it in one batch, and no timer was set
        if self._arrived or self._unreadable or self._lost:
            return
        self._anything.clear()
        self._set_timer(self.run.memory.wake_at())
        await self._anything.wait()

    def _set_timer(self, wake_at: float | None) -> None:
        """Have the run looked at when a time comes. A timer that is set for it stays: most waits of a run are for the same time."""
        if self._timer is not None and self._timer[0] == wake_at and self._is_on_time(*self._timer):
            return
        self._drop_timer()
        if wake_at is not None:
            self._timer = wake_at, asyncio.get_running_loop().call_later(self._until(wake_at), self._time_has_come)

    def _is_on_time(self, wake_at: float, timer: asyncio.TimerHandle) -> bool:
        """Return whether a timer still rings at its time: the wall clock may have been set, and the loop's time does not follow it."""
        if wake_at <= self._looked_at:
            return True  # it was set to look again, and not for that time
        due = asyncio.get_running_loop().time() + wake_at - self._clock.now()
        return abs(timer.when() - due) <= CLOCK_DRIFT_S

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer[1].cancel()
        self._timer = None

    def _time_has_come(self) -> None:
        self._timer = None
        self._anything.set()

    def _until(self, wake_at: float) -> float:
        """Return the seconds until a time; longer and longer for one that ``BatchEnded`` has had, and done nothing."""
        if wake_at > self._looked_at:
            self._again_s = 0.0
            return wake_at - self._clock.now()
        first, longest = LOOK_AGAIN_S
        before, self._again_s = self._again_s, min(2 * self._again_s, longest) or first
        if before < self._again_s == longest:
            self._say(f"wake_at() gives a time that has passed, and {kind_of(BatchEnded)} does nothing in {self.run.state}")
        return self._again_s

    # -- one batch ---------------------------------------------------------------------------------

    async def _step(self, arrivals: list[Arrival], *, drain: bool) -> None:
        """Take a batch: step, append, perform."""
        unreadable = tuple(self._unreadable)
        while True:
            entries: list[Entry] = []
            folded = list(unreadable)
            broken = self._take_all(arrivals, entries, folded)
            if broken is None:
                break
            # A move failed halfway: nothing of this batch counts; the journal has the last good state.
            self.run, self._freezer = await load(self._store, self.run.machine, self.run.id, self._freezer.interval_chars)
            arrivals = broken
        if drain:
            entry = self.run.take(BatchEnded(), at=(at := self._clock.now()), actor="system")
            self._looked_at = -math.inf if entry else at
            entries += [entry] if entry else []
        if not entries and not folded:
            return
        await self._append(entries, folded)
        del self._unreadable[: len(unreadable)]  # others may have come while this was written
        self._tell(self.run.id, entries)
        for entry in entries:
            for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
                self._perform(effect_id, effect)

    def _take_all(self, arrivals: list[Arrival], entries: list[Entry], folded: list[tuple[str, str]]) -> list[Arrival] | None:
        """Step with each arrival. Returns the batch to take instead, if a move failed over an outcome."""
        for index, arrival in enumerate(arrivals):
            event, at = arrival.event, self._clock.now()
            if not arrival.key and not isinstance(event, EffectResult) and type(event) not in self.run.machine.table[self.run.state]:
                continue  # a sign of life, or news of a device, that comes too late for this state
            if arrival.failure:
                entries.append(self.run.note(event, at=at, actor=arrival.actor, key=arrival.key, why=arrival.failure))
                folded.append((arrival.key, arrival.failure))
                continue
            try:
                entry = self.run.take(event, at=at, actor=arrival.actor, key=arrival.key)
            except Exception as error:  # boundary: a defect in a move ends its run by name, and no other; a command is refused
                if arrival.key and isinstance(error, IllegalTransition | Refused):
                    entries.append(self.run.note(event, at=at, actor=arrival.actor, key=arrival.key, why=self._why(error)))
                    folded.append((arrival.key, entries[-1].note))
                    continue
                reason = f"{type(error).__name__}: {error}".partition("\n")[0]
                self._say(f"{kind_of(event)} could not be taken: {reason}")
                if performing := self._performing.pop(arrival.by, None):  # it may wait for what follows from its report
                    performing.cancel()
                return [*arrivals[:index], replacement(arrival, reason, error), *arrivals[index + 1 :]]
            if entry:
                entries.append(entry)
            if arrival.key:
                folded.append((arrival.key, (entry.note if entry else "") or ACCEPTED))
        return None

    def _why(self, refused: IllegalTransition | Refused) -> str:
        """Why a command was not taken, for its sender: one line."""
        if isinstance(refused, Refused):
            return refused.verdict
        if self.run.machine.is_terminal(self.run.state):
            return f"run {self.run.id} {'has ended' if self.run.ended else 'is ending'} already ({self.run.memory.outcome()})"
        return str(refused).partition("\n")[0]

    async def _append(self, entries: list[Entry], folded: list[tuple[str, str]]) -> None:
        """Write a batch; a failed write is tried again, said aloud. Nothing was performed yet, so nothing is lost."""
        records = [self._packer.pack(entry) for entry in entries]
        commit = Commit(
            run_id=self.run.id,
            epoch=self.epoch,
            expected_seq=self.run.seq - len(entries),
            records=records,
            state=str(self.run.state),
            status=status_of(self.run),
            outcome=self.run.memory.outcome() if self.run.ended else "",
            updated_at=self._clock.now(),
            opened=[row for entry in entries for row in opened_inquiries(entry)],
            closed=[closed for entry in entries for closed in closed_inquiries(entry)],
            folded=folded,
            snapshot=self._freezer.after(self.run, records),
            version=self._version,
        )
        for number in range(1, APPEND_TRIES + 1):
            try:
                await self._store.append(commit)
            except StoreUnavailable as error:
                if number == APPEND_TRIES:
                    raise
                self._say(f"{error}; trying again ({number} of {APPEND_TRIES - 1})")
                await asyncio.sleep(0.25 * 2.0 ** (number - 1))
            else:
                break

    def _say(self, message: str) -> None:
        self._say_of(self.run.id, message)

    # -- effects -----------------------------------------------------------------------------------

    def _perform(self, effect_id: str, effect: Effect) -> None:
        if isinstance(effect, CancelEffect):
            self._withdraw(effect_id, effect)
        elif effect.performed_outside and effect_id in self.run.outstanding:
            try:
                request = self.run.request(effect_id)
            except Exception as error:  # boundary: a defect in how a request is made is its effect's outcome
                self.arrive(self._failed(effect_id, effect, error), effect.actor)
            else:
                self._performing[effect_id] = self._group.create_task(self._performed(effect_id, effect, request), name=effect_id)

    async def _performed(self, effect_id: str, effect: Effect, request: Any) -> None:
        def report(event: Event) -> None:
            self.arrive(read_back(event), effect.actor, by=effect_id)

        try:
            outcome = effect_result(effect_id, await self._performers[type(effect)].perform(effect_id, request, report))
        except _STOPS as lost:  # the tree is released, its outcomes stay open
            self._lost = lost
            self._anything.set()
            return
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # boundary: what went wrong in a performer is its effect's outcome
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                raise
            outcome = self._failed(effect_id, effect, error)
        self._performing.pop(effect_id, None)
        self.arrive(outcome, effect.actor)

    def _failed(self, effect_id: str, effect: Effect, error: BaseException) -> EffectResult:
        why = error_text(error)
        self._say(f"{kind_of(effect)} {effect_id}: {why}")
        return interrupted_result(effect_id, effect, why)

    def _withdraw(self, effect_id: str, effect: CancelEffect) -> None:
        """Call an effect off: its own outcome first, then the withdrawal's."""
        target, withdrawn = self.run.outstanding.get(effect.effect_id), EffectCancelled(effect_id=effect_id)
        performing = self._performing.get(effect.effect_id)
        if performing is None or target is None:
            # An answer from outside does not count: what is called off is not asked any more, and refuses it.
            has_arrived = any(
                isinstance(it.event, EffectResult) and it.event.effect_id == effect.effect_id and not it.key for it in self._arrived
            )
            if target is not None and not has_arrived:
                self.arrive(interrupted_result(effect.effect_id, target, self._called_off()), "system")
            self.arrive(withdrawn, "system")
            return

        def called_off(_: asyncio.Task[None]) -> None:
            # A performer that ended by itself at the last moment has left its own outcome, and is not here any more.
            if self._performing.pop(effect.effect_id, None):
                self.arrive(interrupted_result(effect.effect_id, target, self._called_off()), "system")
            self.arrive(withdrawn, "system")

        performing.add_done_callback(called_off)
        performing.cancel()

    def _called_off(self) -> str:
        """Why something that was under way was called off, where its run has said why it ends."""
        reason = self.run.memory.reason
        return f"called off: {reason}" if reason else "called off"

    def abandon(self) -> None:
        """Stop performing, and leave every outcome open: the next owner redoes what must be."""
        self._drop_timer()
        for task in tuple(self._performing.values()):
            task.cancel()


def _is_being_cancelled() -> bool:
    """True where it is this task that is cancelled, and not something that it has waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
