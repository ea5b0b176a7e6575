"""Checks that hold for a run of every machine, on a replay of its journal, entry by entry.

Subclasses add the checks of one machine: ``constellation_checks``, ``loop_checks``, ``flow_checks``. ``TableChecks``
serves machines of which only the table is known.
They implement the rules a second time: if they called the code under test, they would share its defects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from asterism.engine.control.children import ChildEnded, SignalChild, StartChild, child_run_id
from asterism.engine.control.run_control import Answered, AskPerson, Cancel, Forked, OwnershipAcquired, Pause, Unpause
from asterism.engine.kernel.journal import Entry, JournalMismatch, Record
from asterism.engine.kernel.machine import Effect, EffectResult, Machine, RecoveryPolicy, kind_of
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.kernel.snapshot import Snapshot, restore_snapshot
from asterism.engine.ports.store import Commit
from asterism.stores.memory import MemoryDatabase
from asterism.testing.checks.view_checks import ViewChecker
from asterism.testing.device import Performance, PerformanceLog
from asterism.testing.invariants import InvariantViolated, difference, facts_of
from asterism.testing.remote import RemoteJob

M = TypeVar("M")

REACTION_S = 5.0
"""Seconds after a due time within which a run must react: a store can be slow."""


class RunChecks(Generic[M]):
    """Checks of one run.

    Args:
        machine: machine of the run.
        run_id: id of the run.
        now: returns seconds since the epoch.

    Attributes:
        replayed: the run as a recovery would see it.
        epoch, writer: epoch and process of the current owner.
        effects: every scheduled effect by id.
        results: kind of the accepted result, by effect id.
        cancelled_at: time of the cancellation, by effect id.
        began_at: start of the run; for a fork, later by the time it was idle.
        is_fenced: True once a living owner was declared dead, so that two processes may perform at once for a while.
        own: invariants of the form, as in ``Form.checks``.
        view_checker: check of the view rows; None for none.
    """

    edges: ClassVar[dict[str, str]] = {}
    """Allowed target states of each state, separated by spaces; empty to allow all."""
    exits: frozenset[tuple[str, str]] = frozenset()
    """Allowed transitions out of terminal states."""

    def __init__(self, machine: Machine[M], run_id: str, now: Callable[[], float]) -> None:
        self.machine = machine
        self.replayed: Run[M] = Run(machine, run_id)
        self.now = now
        self.epoch = 0
        self.writer = ""
        self.effects: dict[str, Effect] = {}
        self.results: dict[str, str] = {}
        self.cancelled_at: dict[str, float] = {}
        self.began_at = 0.0
        self.is_fenced = False
        self.own: Sequence[Callable[[Run[M]], str]] = ()
        self.view_checker: ViewChecker | None = None
        self._keys: set[str] = set()
        self._child_ends: dict[str, ChildEnded] = {}
        self._copied_effects: set[str] = set()
        self._cancelled_children: set[str] = set()  # children that were sent a cancel
        self._is_cancelled = False

    def fail(self, number: int, finding: str) -> InvariantViolated:
        """Return the violation with the last entries of the run."""
        return InvariantViolated(number, finding, self.replayed.history)

    # -- hooks for one machine ---------------------------------------------------------------------

    def before(self, entry: Entry, /) -> None:
        """Check an entry before it is replayed."""

    def after(self, entry: Entry, /) -> None:
        """Check an entry after it was replayed and its effects were recorded."""

    def performance_started(self, performance: Performance) -> None:
        """Note that an effect of the run has started to be performed."""

    def remote_started(self, job: RemoteJob) -> None:
        """Check a job that has started on the far side of a remote device."""

    def check_jobs(self, jobs: Sequence[RemoteJob]) -> None:
        """Check the jobs of this run on remote devices, after the last process has ended."""

    def is_unrepeatable(self, effect: Effect) -> bool:
        """Return True if the effect must never be performed again."""
        return effect.recovery_policy is RecoveryPolicy.DO_NOT_RETRY

    def is_ending(self) -> bool:
        """Return True while a run that was cancelled may still work, or wait for a person, before it ends."""
        return False

    def facts(self, run: Run[M]) -> dict[str, Any]:
        """Return the complete state of a run, for comparison."""
        return facts_of(run)

    def limit_s(self) -> float | None:
        """Return the time limit of the run in seconds, or None."""
        return None

    def unexplained_wait(self, run: Run[M]) -> str:
        """Return the state of a quiet run that waits for nothing it can name; an empty text otherwise."""
        return f"the run is in {run.state}, nothing is outstanding, and it is not paused"

    def runnable_work(self) -> str:
        """Return the work that could start although no process drives the run; an empty text for none."""
        return ""

    def compares_fully(self, written: int) -> bool:  # noqa: ARG002 - for subclasses with large runs
        """Return True if the whole state is compared after this number of new entries."""
        return True

    # -- checks of every machine -------------------------------------------------------------------

    def check_commit(self, writer: str, commit: Commit, live: Run[Any] | None) -> None:
        """Check a commit that has become durable."""
        first = packer(self.machine).unpack(commit.records[0]).event if commit.records else None
        if commit.epoch != self.epoch:
            if commit.epoch < self.epoch or not isinstance(first, OwnershipAcquired) or first.epoch != commit.epoch:
                raise self.fail(7, f"{writer} wrote under epoch {commit.epoch}, but the journal is at {self.epoch}")
            self.epoch, self.writer = commit.epoch, writer
        if writer != self.writer:
            raise self.fail(7, f"{writer} wrote under epoch {commit.epoch}, which {self.writer} owns")
        self.add(commit.records)
        replayed = self.replayed
        if live is not None and self.compares_fully(len(commit.records)) and (found := difference(live, replayed, self.facts)):
            raise self.fail(5, found)
        if commit.snapshot is not None and (found := self._snapshot_difference(commit.snapshot)):
            raise self.fail(5, found)
        if commit.state != replayed.state:
            raise self.fail(5, f"the row of the run is in {commit.state}, but its journal in {replayed.state}")

    def _snapshot_difference(self, snapshot: Snapshot) -> str:
        restored = restore_snapshot(self.machine, snapshot, snapshot.code_version)
        if restored is None:
            return "a snapshot cannot be restored"
        found = difference(restored, self.replayed, self.facts)
        return f"restored from its snapshot: {found}" if found else ""

    def add(self, records: Sequence[Record]) -> None:
        """Replay records one by one and check each entry."""
        for record in records:
            entry = packer(self.machine).unpack(record)
            self._check_accepted(entry)
            was = self.replayed.state
            self.before(entry)
            try:
                self.replayed.replay([entry])
            except JournalMismatch as mismatch:
                raise self.fail(5, str(mismatch)) from None
            now = self.replayed.state
            if self.machine.is_terminal(was) and now != was and (was, now) not in self.exits:
                raise self.fail(4, f"from {was} to {now}")
            if self.edges and now != was and now not in self.edges[was].split():
                raise self.fail(4, f"from {was} to {now}, which the table does not allow")
            for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
                self.effects[effect_id] = effect
                if effect.cancels:
                    self.cancelled_at[effect.cancels] = self.now()
            self._is_cancelled |= isinstance(entry.event, Cancel) and not entry.note
            self._check_signals(entry)
            self.after(entry)
            for check in self.own:
                if found := check(self.replayed):
                    raise self.fail(16, found)
            if self.view_checker and (found := self.view_checker.check(entry)):
                raise self.fail(12, found)

    def _check_accepted(self, entry: Entry) -> None:
        event = entry.event
        if entry.seq == 1:
            self.began_at = entry.at
        if isinstance(event, Forked):
            self.began_at += event.idle_s
            self._keys.clear()  # the keys belong to the inbox of the origin, which also keeps its children
            self._copied_effects.update(self.effects)
        if entry.key and entry.key in self._keys:
            raise self.fail(6, f"entry {entry.seq} accepts the inbox row {entry.key} a second time")
        self._keys.add(entry.key)
        if entry.note or not isinstance(event, EffectResult):
            return
        if event.effect_id not in self.effects or event.effect_id in self.results:
            why = "already has a result" if event.effect_id in self.results else "was never scheduled"
            raise self.fail(6, f"entry {entry.seq} accepts a result of {event.effect_id}, which {why}")
        if isinstance(event, Answered) and event.verb in ("approve", "edit") and not event.cancelled and not entry.key:
            raise self.fail(9, f"entry {entry.seq} is an approval of {event.effect_id} that no person has sent")
        self.results[event.effect_id] = kind_of(event)
        if isinstance(event, ChildEnded):
            self._child_ends[event.effect_id] = event

    def _check_signals(self, entry: Entry) -> None:
        """Check that an entry forwards a person's command to all children, and that an ended run has cancelled them."""
        sent = {effect.effect_id: effect.command["type"] for effect in entry.effects if isinstance(effect, SignalChild)}
        self._cancelled_children.update(target for target, kind in sent.items() if kind == kind_of(Cancel))
        replayed, kind = self.replayed, kind_of(entry.event)
        gone = self._cancelled_children | replayed.cancelled_effects
        living = [key for key, effect in replayed.outstanding.items() if isinstance(effect, StartChild) and key not in gone]
        if self.machine.is_terminal(replayed.state):
            if living:
                raise self.fail(8, f"the run is in {replayed.state}, but has not cancelled {child_run_id(living[0])}")
            if asked := [key for key, effect in replayed.outstanding.items() if isinstance(effect, AskPerson) and key not in gone]:
                raise self.fail(8, f"the run is in {replayed.state}, but still asks {asked[0]}")
        receivers = living if isinstance(entry.event, Pause | Unpause | Cancel) and not entry.note else []
        if missed := [key for key in receivers if sent.get(key) != kind]:
            raise self.fail(6, f"entry {entry.seq} is a {kind}, but does not forward it to {child_run_id(missed[0])}")

    def overdue(self) -> str:
        """Return the work that is past its time although a process drives the run; an empty text for none."""
        run, limit_s, by = self.replayed, self.limit_s(), self.now() - REACTION_S
        if self.machine.is_terminal(run.state):
            return ""
        if limit_s is not None and self.began_at + limit_s < by:
            return f"the run has a limit of {limit_s:g} s, but has not ended"
        gone = run.cancelled_effects | self._copied_effects
        late = [
            key
            for key, effect in run.outstanding.items()
            if isinstance(effect, AskPerson) and 0 < effect.expires_at < by and key not in gone
        ]
        return f"{late[0]} has expired, but is still open" if late else ""

    def check_performance(self, performance: Performance, log: PerformanceLog, *, max_store_outage_s: float, released: set[str]) -> None:
        """Check a performance of an effect that has just started.

        Args:
            performance: the performance.
            log: log of this and the earlier performances.
            max_store_outage_s: seconds for which a process may not know whether its write succeeded.
            released: processes that have released the run; a device that ignores its cancel may continue there for a while.
        """
        key = performance.key
        earlier = log.of(key)[:-1]
        effect = self.effects.get(key)
        if effect is None:
            raise self.fail(2, f"{key} is performed, but is not in the journal")
        if key in self.results and not self.is_fenced:
            raise self.fail(2, f"{key} is performed after its result was accepted")
        cancelled_at = self.cancelled_at.get(key)
        if cancelled_at is not None and self.now() > cancelled_at + max_store_outage_s and not self.is_fenced:
            raise self.fail(2, f"{key} is performed after it was cancelled")
        if earlier and self.is_unrepeatable(effect):
            raise self.fail(2, f"{key} is performed again, but must never be repeated")
        if any(one.ended_at is None and one.process not in released for one in earlier) and not self.is_fenced:
            raise self.fail(2, f"{key} is performed twice at once")
        busy = log.running_count(performance.process, performance.device_id)
        if busy > performance.slots > 0:
            raise self.fail(2, f"{performance.device_id} performs {busy} attempts at once, but has a concurrency of {performance.slots}")
        self.performance_started(performance)

    # -- the end -----------------------------------------------------------------------------------

    def check_end(self, database: MemoryDatabase, log: PerformanceLog) -> None:
        """Check the final state of the run, after the last process has ended."""
        row = database.runs[self.replayed.id]
        again: Run[M] = Run(self.machine, row.run_id)
        try:
            again.replay(packer(self.machine).unpack(record) for record in database.records[row.run_id])
        except JournalMismatch as mismatch:
            raise self.fail(5, str(mismatch)) from None
        if found := difference(again, self.replayed, self.facts):
            raise self.fail(5, found)
        if set(again.outstanding) != {effect for effect in self.effects if effect not in self.results}:
            raise self.fail(6, "the outstanding effects are not those without a result")
        asked = {effect_id for effect_id, effect in again.outstanding.items() if isinstance(effect, AskPerson)}
        if asked != {inquiry.inquiry_id for inquiry in database.inquiries.values() if inquiry.run_id == row.run_id and not inquiry.answer}:
            raise self.fail(6, f"the journal asks {sorted(asked)}, but the store lists other open inquiries")
        if again.ended != (row.status == "ended"):
            raise self.fail(
                8, f"the row of the run says {row.status}, but its journal is in {again.state} with {len(again.outstanding)} outstanding"
            )
        if again.ended and not row.outcome:
            raise self.fail(8, "the run has ended, but its row has no outcome")
        memory: Any = again.memory
        if not again.ended and not memory.paused and ((startable := self.runnable_work()) or not (asked or memory.blocked_children)):
            waits = startable or "it asks no person"
            raise self.fail(8, f"no process drives the run, it is in {again.state}, and {waits}")
        if (
            self._is_cancelled and not again.ended and not memory.blocked_children and not self.is_ending()
        ):  # a child may have rejected its cancel
            raise self.fail(8, "the cancel was accepted, but no process drives the run and it has not ended")
        if log.running_keys:
            raise self.fail(6, f"{', '.join(log.running_keys)} still running, and no process waits for it")
        for key, effect in self.effects.items():
            done = [performance for performance in log.of(key) if performance.status == "done"]
            if len(done) > 1 and self.is_unrepeatable(effect):
                raise self.fail(6, f"{key} was completed {len(done)} times")

    def check_children(self, database: MemoryDatabase) -> None:
        """Check that the parent has scheduled every child, that its signals arrived, and that it recorded the child's outcome."""
        run, rows, settled = self.replayed.id, database.runs, list(self.results)
        own = {key: effect for key, effect in self.effects.items() if key not in self._copied_effects}
        for key, effect in own.items():
            arrived = (
                not isinstance(effect, SignalChild) or key not in self.results or (child_run_id(effect.effect_id), key) in database.inbox
            )
            if isinstance(effect, SignalChild) and not arrived and effect.effect_id not in settled[: settled.index(key)]:
                raise self.fail(6, f"the signal {key} never reached {child_run_id(effect.effect_id)}")
        for row in rows.values():
            asked = self.effects.get(f"{run}:{row.run_id.removeprefix(run + '.')}")
            if row.parent == run and not isinstance(asked, StartChild):
                raise self.fail(6, f"{row.run_id} exists, but {run} has not scheduled it")
        for key, effect in own.items():
            child = rows.get(child_run_id(key))
            ended = self._child_ends.get(key)
            if not isinstance(effect, StartChild) or ended is None or ended.code in ("interrupted", "refused"):
                continue
            if child is None or (child.status, child.outcome) != ("ended", ended.outcome):
                raise self.fail(6, f"{run} recorded the outcome {ended.outcome} of {key}, but the child is {child}")


class TableChecks(RunChecks[M]):
    """Checks of a run of which only the machine's table is known: the table and the memory give the exits and the waits."""

    def __init__(self, machine: Machine[M], run_id: str, now: Callable[[], float]) -> None:
        super().__init__(machine, run_id, now)
        matrix = machine.matrix()
        self.exits = frozenset((str(state), str(target)) for state in matrix if machine.is_terminal(state) for target in matrix[state])

    def unexplained_wait(self, run: Run[M]) -> str:
        """Return as the base class does; a run may also wait for a time."""
        memory: Any = run.memory
        return super().unexplained_wait(run) if memory.due_at() is None else ""


def canonical(subject: object) -> bytes:
    """Return JSON that is equal for equal values."""
    return msgspec.json.encode(subject, order="deterministic")
