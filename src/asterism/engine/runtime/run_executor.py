"""The executor of one owned run: it processes arrivals, appends entries and starts effects.

This is the only loop that advances a run. What happens between two appends is pure
(``engine.kernel.run``); performers and the store do the rest.
"""

from __future__ import annotations

import asyncio
import collections
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from asterism.engine.control.run_control import BatchEnded, CancelEffect, EffectCancelled, OwnershipAcquired
from asterism.engine.kernel.data import error_text, read_back
from asterism.engine.kernel.journal import Entry, JournalMismatch, version_of
from asterism.engine.kernel.machine import Effect, EffectResult, Event, RecoveryPolicy, kind_of
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.phrase import phrase
from asterism.engine.kernel.refusal import verdict_of
from asterism.engine.kernel.run import Run
from asterism.engine.ports.performer import Performer
from asterism.engine.ports.store import ACCEPTED, Commit, InboxRow, Store
from asterism.engine.runtime.arrivals import Arrival, confirm, effect_result, interrupted_result, is_refusal, replacement
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.run_status import closed_inquiries, is_stuck, opened_inquiries, status_of
from asterism.engine.runtime.snapshots import SnapshotPolicy, load
from asterism.engine.runtime.task_group import is_being_cancelled
from asterism.engine.runtime.wakeup_timer import WakeupTimer
from asterism.errors import AsterismError, DefinitionMissing, IllegalTransition, Refused, RunNewer, RunStuck, StaleOwner, StoreUnavailable

APPEND_TRIES = 8
"""Attempts to write one append before the run is released, at growing intervals (about 30 s)."""
MAX_BATCH = 1000
"""Arrivals in one batch; the rest wait for the next one."""
_RELEASING_ERRORS = (DefinitionMissing, JournalMismatch, RunNewer, RunStuck, StaleOwner, StoreUnavailable)
"""Errors that are no result of an effect: this process releases the tree, so that another process
can acquire it."""


class RunExecutor:
    """The live state of one owned run.

    Args:
        run: the run, replayed to the end of its journal.
        epoch: epoch of this ownership.
        snapshot_policy: decides when a snapshot is due.
        on_appended: called with the run's id and the entries that are durable now.
        warn: called with the run's id and a problem that the executor is dealing with.
        group: owns the tasks that perform effects.
        root: id of the run at the top of its tree.
        release: releases the run; returns False if its inbox has a row without a verdict.
        on_blocked: called with True when the run is paused or begins to wait only for people, and
            with False when that ends.

    Attributes:
        is_draining: True if the run is about to be released by force: what ends is recorded, and
            nothing new starts.
    """

    def __init__(
        self,
        run: Run[Any],
        epoch: int,
        *,
        store: Store,
        clock: Clock,
        performers: Mapping[type[Effect], Performer],
        snapshot_policy: SnapshotPolicy,
        on_appended: Callable[[str, Sequence[Entry]], None],
        warn: Callable[[str, str], None],
        group: asyncio.TaskGroup,
        root: str,
        release: Callable[[], Awaitable[bool]],
        on_blocked: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self.run = run
        self.epoch = epoch
        self._store = store
        self._clock = clock
        self._performers = performers
        self._snapshot_policy = snapshot_policy
        self._on_appended = on_appended
        self._warn_of = warn
        self._group: asyncio.TaskGroup = group
        self.root = root
        self._release = release
        self._on_blocked = on_blocked
        self.is_draining = False
        self._is_stepping = False
        self._packer, self._version = packer(run.machine), version_of(run.machine)
        self._arrivals: collections.deque[Arrival] = collections.deque()
        self._wakeup = asyncio.Event()
        self._performing: dict[str, asyncio.Task[None]] = {}
        self._delivered: set[str] = set()  # never shrinks: the poller may deliver a row that it read before our commit wrote the verdict
        self._unreadable: list[tuple[str, str]] = []
        self._timer = WakeupTimer(clock, self._wakeup.set, self._warn_of_past_wake)
        self._releasing: AsterismError | None = None

    # -- arrivals ----------------------------------------------------------------------------------

    def arrive(self, event: Event, actor: str, by: str = "", recorded: asyncio.Future[None] | None = None) -> None:
        """Enqueue an event for the next batch."""
        self._arrivals.append(Arrival(event, actor, by=by, recorded=recorded))
        self._wakeup.set()

    def deliver(self, rows: Iterable[InboxRow]) -> None:
        """Enqueue rows of the inbox, each only once however often it is delivered."""
        for row in rows:
            if row.key in self._delivered:
                continue
            self._delivered.add(row.key)
            if not row.key:  # modified by hand: what arrives without a key is from within
                self._unreadable.append((row.key, verdict_of(phrase("no_key"))))
                self._wakeup.set()
                continue
            try:
                event = self._packer.event(row.kind, row.body)
            except ValueError as error:
                self._unreadable.append((row.key, str(error)))
            else:
                self._arrivals.append(Arrival(event, row.actor, row.key, permissions=row.permissions))
            self._wakeup.set()

    # -- the loop ----------------------------------------------------------------------------------

    async def acquire(self, owner: str) -> None:
        """Record the new owner, process the inbox, and recover the effects that were left open.

        The recovery policy of an effect says whether it is performed again, or gets an interrupted
        result. Questions stay open. The inbox comes first: a cancel that was written while nobody
        owned the run must prevent that an effect is performed again.
        """
        left, cancelled = dict(self.run.outstanding), set(self.run.cancelled_effects)
        is_new = self.run.seq == 1  # nobody has owned it yet, so no effect of its first entry was started
        self.deliver(await self._store.inbox([self.run.id]))
        retried = tuple(
            key
            for key, it in left.items()
            if it.performed_outside and self.run.memory.recovery_of(key, it) is not RecoveryPolicy.DO_NOT_RETRY and key not in cancelled
        )
        acquired = OwnershipAcquired(epoch=self.epoch, owner=owner, retried=retried)
        await self._step([Arrival(acquired, "system"), *self._next_arrivals()], ends_batch=False)
        for effect_id, effect in left.items():
            if effect_id in cancelled:
                self.arrive(interrupted_result(effect_id, effect, phrase("stopped", why=self.run.memory.why)), "system")
            elif effect_id not in self.run.outstanding or effect_id in self.run.cancelled_effects:
                continue  # the inbox had its result, or a cancel
            elif self.run.memory.recovery_of(effect_id, effect) is RecoveryPolicy.DO_NOT_RETRY and not is_new:
                self.arrive(interrupted_result(effect_id, effect, phrase("owner_ended")), "system")
            else:
                self._perform(effect_id, effect)

    async def drive(self, *, park: bool) -> bool:
        """Drive the run until it has ended; with ``park`` also until it is paused or waits for people.

        Returns:
            True if the run must be acquired again: an event arrived during the release, for
                example from a child that had accepted an answer.

        Raises:
            StaleOwner: another process has acquired the run, or a child of it.
            RunNewer: a newer program has written to a child of the run.
            StoreUnavailable: every attempt to write a journal failed.
            RunStuck: no possible event would advance the run, or a child of it.
            JournalMismatch: the journal of a child cannot be replayed.
            DefinitionMissing: the code of the run, or of a child, is missing or does not fit the journal.
        """
        while True:
            await self._step(self._next_arrivals(), ends_batch=not self.is_draining)
            idle = self._is_idle() and not self.is_draining
            if self.run.ended or (park and idle):
                if await self._release():
                    return bool(self._arrivals) and not self.run.ended
                self.deliver(await self._store.inbox([self.run.id]))  # rows for children come with the next poll
            if is_stuck(self.run) and not (self._arrivals or self._unreadable or self._releasing or self.is_draining):
                raise RunStuck(self.run.id, self.run.machine.name, self.run.state)
            if idle:
                self._on_blocked(True)  # noqa: FBT003 - the news itself
            await self._wait()
            if idle:
                self._on_blocked(False)  # noqa: FBT003
            if self._releasing is not None:
                raise self._releasing

    def _is_idle(self) -> bool:
        """Return True if nothing can be done here until people act: all that is active is blocked."""
        busy = self._performing.keys() - self.run.memory.blocked_children
        return not self._arrivals and not busy and status_of(self.run) in ("paused", "waiting")

    @property
    def is_settled(self) -> bool:
        """Return True if a release by force would lose nothing: no unrepeatable work, and no result that is not in the journal."""
        recovery_of, outstanding = self.run.memory.recovery_of, self.run.outstanding
        unrepeatable = any(
            key in outstanding and recovery_of(key, outstanding[key]) is RecoveryPolicy.DO_NOT_RETRY for key in self._performing
        )
        return not (unrepeatable or self._arrivals or self._is_stepping)

    def _next_arrivals(self) -> list[Arrival]:
        count = min(len(self._arrivals), MAX_BATCH)
        return [self._arrivals.popleft() for _ in range(count)]

    async def _wait(self) -> None:
        if not self._arrivals:
            await asyncio.sleep(0)  # effects that end without waiting end here, all in one batch and without a timer
        if self._arrivals or self._unreadable or self._releasing:
            return
        self._wakeup.clear()
        self._timer.set(None if self.is_draining else self.run.memory.due_at())
        await self._wakeup.wait()

    # -- one batch ---------------------------------------------------------------------------------

    async def _step(self, arrivals: list[Arrival], *, ends_batch: bool) -> None:
        self._is_stepping = True
        try:
            entries = await self._commit(arrivals, ends_batch=ends_batch)
        finally:
            self._is_stepping = False
        confirm(arrivals, self.run.outstanding.keys(), self.run.abandoned)
        for entry in entries:
            for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
                self._perform(effect_id, effect)

    async def _commit(self, arrivals: list[Arrival], *, ends_batch: bool) -> list[Entry]:
        """Process a batch, and append its entries; return them."""
        unreadable = tuple(self._unreadable)
        while True:
            entries: list[Entry] = []
            folded = list(unreadable)
            broken = self._take_all(arrivals, entries, folded)
            if broken is None:
                break
            # A move failed halfway: discard the batch; the journal has the last good state.
            self.run, self._snapshot_policy = await load(self._store, self.run.machine, self.run.id, self._snapshot_policy.interval_chars)
            arrivals = broken
        if ends_batch:
            entry = self.run.take(BatchEnded(), at=(at := self._clock.now()), actor="system")
            self._timer.idle_at = -math.inf if entry else at
            entries += [entry] if entry else []
        if entries or folded:
            await self._append(entries, folded)
            del self._unreadable[: len(unreadable)]  # more may have come during the append
            self._on_appended(self.run.id, entries)
        return entries

    def _take_all(self, arrivals: list[Arrival], entries: list[Entry], folded: list[tuple[str, str]]) -> list[Arrival] | None:
        """Step with each arrival; return the batch to process instead if a move failed."""
        for index, arrival in enumerate(arrivals):
            event, at = arrival.event, self._clock.now()
            if not arrival.key and not isinstance(event, EffectResult) and type(event) not in self.run.machine.table[self.run.state]:
                continue  # progress, or a device notice, that comes too late for this state
            if arrival.failure:
                entries.append(self._note(arrival, at, arrival.failure))
                folded.append((arrival.key, arrival.failure))
                continue
            try:
                entry = self.run.take(event, at=at, actor=arrival.actor, key=arrival.key, permissions=arrival.permissions)
            except Exception as error:  # boundary: a defect in a move ends its run only, with its name; a command is refused
                if arrival.key and is_refusal(error):
                    entries.append(self._note(arrival, at, self._refusal(error)))
                    folded.append((arrival.key, entries[-1].note))
                    continue
                reason = f"{type(error).__name__}: {error}".partition("\n")[0]
                self._warn(f"{kind_of(event)} could not be taken: {reason}")
                if performing := self._performing.pop(arrival.by, None):  # it may wait for the result of its report
                    performing.cancel()
                return [*arrivals[:index], replacement(arrival, reason, error), *arrivals[index + 1 :]]
            if entry:
                entries.append(entry)
            if arrival.key:
                folded.append((arrival.key, (entry.note if entry else "") or ACCEPTED))
        return None

    def _note(self, arrival: Arrival, at: float, why: str) -> Entry:
        """Record the event of an arrival without a step."""
        return self.run.note(arrival.event, at=at, actor=arrival.actor, key=arrival.key, permissions=arrival.permissions, why=why)

    def _refusal(self, refused: IllegalTransition | Refused) -> str:
        """Return the verdict for the sender of a refused command."""
        if isinstance(refused, Refused):
            return verdict_of(refused)
        if self.run.machine.is_terminal(self.run.state):
            return verdict_of(phrase("run_ended", run=self.run.id, ended=self.run.ended, outcome=self.run.memory.outcome()))
        accepted, event, state = refused.accepted, refused.event, refused.state
        return verdict_of(phrase("not_accepted", machine=refused.machine, state=state, event=event, accepted=accepted))

    async def _append(self, entries: list[Entry], folded: list[tuple[str, str]]) -> None:
        """Write a batch; effects start only after it, so a failure loses nothing."""
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
            snapshot=self._snapshot_policy.after(self.run, records),
            version=self._version,
        )
        for number in range(1, APPEND_TRIES + 1):
            try:
                await self._store.append(commit)
            except StoreUnavailable as error:
                if number == APPEND_TRIES:
                    raise
                self._warn(f"{error}; trying again ({number} of {APPEND_TRIES - 1})")
                await asyncio.sleep(0.25 * 2.0 ** (number - 1))
            else:
                break

    def _warn(self, message: str) -> None:
        self._warn_of(self.run.id, message)

    def _warn_of_past_wake(self) -> None:
        self._warn(f"wake_at() returns a time in the past, and {kind_of(BatchEnded)} does nothing in {self.run.state}")

    # -- effects -----------------------------------------------------------------------------------

    def _perform(self, effect_id: str, effect: Effect) -> None:
        if isinstance(effect, CancelEffect):
            self._cancel(effect_id, effect)
        elif effect.performed_outside and effect_id in self.run.outstanding:
            try:
                request = self.run.request(effect_id)
            except Exception as error:  # boundary: a defect in a request factory becomes the effect's result
                self.arrive(self._failure(effect_id, effect, error), effect.actor)
            else:
                self._performing[effect_id] = self._group.create_task(self._performed(effect_id, effect, request), name=effect_id)

    async def _performed(self, effect_id: str, effect: Effect, request: Any) -> None:
        def report(event: Event) -> Awaitable[None]:
            recorded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.arrive(read_back(event), effect.actor, by=effect_id, recorded=recorded)
            return recorded

        try:
            result = effect_result(effect_id, await self._performers[type(effect)].perform(effect_id, request, report))
        except _RELEASING_ERRORS as error:  # the tree is released, and its effects stay open
            self._releasing = error
            self._wakeup.set()
            return
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # boundary: an error in a performer becomes the effect's result
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            result = self._failure(effect_id, effect, error)
        self._performing.pop(effect_id, None)
        self.arrive(result, effect.actor)

    def _failure(self, effect_id: str, effect: Effect, error: BaseException) -> EffectResult:
        why = error_text(error)
        self._warn(f"{kind_of(effect)} {effect_id}: {why}")
        return interrupted_result(effect_id, effect, why)

    def _cancel(self, effect_id: str, effect: CancelEffect) -> None:
        """Cancel an effect: its own result arrives first, then that of the ``CancelEffect``."""
        target, cancelled = self.run.outstanding.get(effect.effect_id), EffectCancelled(effect_id=effect_id)
        performing = self._performing.get(effect.effect_id)
        if performing is None or target is None:
            # A person's answer does not count as a result here: a cancelled question rejects it.
            has_arrived = any(
                isinstance(it.event, EffectResult) and it.event.effect_id == effect.effect_id and not it.key for it in self._arrivals
            )
            if target is not None and not has_arrived:
                self.arrive(interrupted_result(effect.effect_id, target, phrase("stopped", why=self.run.memory.why)), "system")
            self.arrive(cancelled, "system")
            return

        def finish(_: asyncio.Task[None]) -> None:
            # A performer that returned at the last moment delivered its result and removed itself.
            if self._performing.pop(effect.effect_id, None):
                self.arrive(interrupted_result(effect.effect_id, target, phrase("stopped", why=self.run.memory.why)), "system")
            self.arrive(cancelled, "system")

        performing.add_done_callback(finish)
        performing.cancel()

    def abandon(self) -> None:
        """Cancel all performers and leave their effects open: the next owner recovers them."""
        self._timer.drop()
        for task in tuple(self._performing.values()):
            task.cancel()
