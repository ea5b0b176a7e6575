"""One run as a checker knows it: a replay of its own, entry by entry, and what holds for the runs of every machine.

What a machine promises besides is asked by the kinds of it: ``watched_constellation``, ``watched_loop``, ``watched_flow``. A machine of
which no more is known than its table is watched by ``WatchedPlainly``.
Each repeats the rules in its own words; where it leans on the code it checks, it would believe its mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from asterism.kernel.journal import Entry, JournalMismatch, Record
from asterism.kernel.machine import Effect, EffectResult, Event, Machine, RecoveryPolicy, kind_of
from asterism.kernel.packing import packer
from asterism.kernel.run import Run
from asterism.kernel.snapshot import Snapshot, restore_snapshot
from asterism.machines.children import ChildEnded, SignalChild, StartChild, child_run_id
from asterism.machines.run_control import Answered, AskPerson, Cancel, Forked, OwnershipAcquired, Pause, Unpause
from asterism.runtime.ports.store import Commit
from asterism.simulation.checks.shown import ViewChecker
from asterism.simulation.device import Performance, PerformanceLog
from asterism.simulation.invariants import InvariantViolated, difference
from asterism.stores.memory import Memory

M = TypeVar("M")

NOTICED_S = 5.0
"""How long after a time has come it may still be unnoticed: a store can be slow."""


class Watched(Generic[M]):
    """One run.

    Args:
        machine: of the run.
        run_id: its id.
        now: seconds since the epoch.

    Attributes:
        replayed: it, as whoever recovers it would have it.
        epoch, writer: who has claimed it.
        effects, outcomes: all that were asked for, and the kinds of what came of them, by id.
        called_off_at: when effects were called off.
        began_at: when it began; of a fork, as much later as it was idle.
        repeated: the effects that its last claim said are performed again.
        robbed: an owner was declared dead while it lived, so that two may perform at once for a while.
        shown: its rows; None where they are not looked at.
    """

    edges: ClassVar[dict[str, str]] = {}
    """Where each state may lead, in words; empty where the graph of its tasks is what is checked."""
    exits: frozenset[tuple[str, str]] = frozenset()
    """Ways out of states in which a run counts as ended."""

    def __init__(self, machine: Machine[M], run_id: str, now: Callable[[], float]) -> None:
        self.machine = machine
        self.replayed: Run[M] = Run(machine, run_id)
        self.now = now
        self.epoch = 0
        self.writer = ""
        self.effects: dict[str, Effect] = {}
        self.outcomes: dict[str, str] = {}
        self.called_off_at: dict[str, float] = {}
        self.began_at = 0.0
        self.robbed = False
        self.shown: ViewChecker | None = None
        self._keys: set[str] = set()
        self._ends: dict[str, ChildEnded] = {}
        self._copied: set[str] = set()
        self._cancelled: set[str] = set()  # children that were told to end
        self._is_cancelled = False

    def fail(self, number: int, words: str) -> InvariantViolated:
        """What was found, with the last entries."""
        return InvariantViolated(number, words, self.replayed.history)

    # -- what its machine promises -----------------------------------------------------------------

    def before(self, entry: Entry, /) -> None:
        """An entry is about to be replayed."""

    def after(self, entry: Entry, /) -> None:
        """It was; its effects are known."""

    def performed(self, performance: Performance) -> None:
        """One of its effects has begun to be performed."""

    def is_once(self, effect: Effect) -> bool:
        """Whether it must never be performed again."""
        return effect.recovery_policy is RecoveryPolicy.DO_NOT_RETRY

    def limit_s(self) -> float | None:
        """How long it may take in all."""
        return None

    def unnamed_wait(self, run: Run[M]) -> str:
        """Why a quiet run with nothing outstanding cannot say what it waits for; empty when it can."""
        return f"it is in {run.state}, nothing is outstanding, and it is not paused"

    def goes_on(self) -> str:
        """What could go on though nobody drives it; empty for nothing."""
        return ""

    def looks_through(self, written: int) -> bool:  # noqa: ARG002 - for whose runs are large
        """Whether it is compared as a whole after so many new entries."""
        return True

    # -- what every machine promises ---------------------------------------------------------------

    def check_commit(self, writer: str, commit: Commit, live: Run[Any] | None) -> None:
        """A commit has become durable."""
        first = self._event(commit.records[0]) if commit.records else None
        if commit.epoch != self.epoch:
            if commit.epoch < self.epoch or not isinstance(first, OwnershipAcquired) or first.epoch != commit.epoch:
                raise self.fail(7, f"{writer} wrote under epoch {commit.epoch}; the journal is at {self.epoch}")
            self.epoch, self.writer = commit.epoch, writer
        if writer != self.writer:
            raise self.fail(7, f"{writer} wrote under epoch {commit.epoch}, which {self.writer} has claimed")
        self.take(commit.records)
        replayed = self.replayed
        if live is not None and self.looks_through(len(commit.records)) and (found := difference(live, replayed)):
            raise self.fail(5, found)
        if commit.snapshot is not None and (found := self._misremembered(commit.snapshot)):
            raise self.fail(5, found)
        if commit.state != replayed.state:
            raise self.fail(5, f"the run's row says {commit.state}, its journal {replayed.state}")

    def _event(self, record: Record) -> Event:
        return packer(self.machine).unpack(record).event

    def _misremembered(self, snapshot: Snapshot) -> str:
        thawed = restore_snapshot(self.machine, snapshot, snapshot.code_version)
        if thawed is None:
            return "a snapshot cannot be thawed"
        found = difference(thawed, self.replayed)
        return f"thawed from its snapshot: {found}" if found else ""

    def take(self, records: Sequence[Record]) -> None:
        """Replay them one by one, and look at each."""
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
                raise self.fail(4, f"from {was} to {now}, which no edge leads to")
            for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
                self.effects[effect_id] = effect
                if effect.cancels:
                    self.called_off_at[effect.cancels] = self.now()
            self._is_cancelled |= isinstance(entry.event, Cancel) and not entry.note
            self._check_told(entry)
            self.after(entry)
            if self.shown and (found := self.shown.take(entry)):
                raise self.fail(12, found)

    def _check_accepted(self, entry: Entry) -> None:
        event = entry.event
        if entry.seq == 1:
            self.began_at = entry.at
        if isinstance(event, Forked):
            self.began_at += event.idle_s
            self._keys.clear()  # those were of the origin's inbox, and its children stay its own
            self._copied.update(self.effects)
        if entry.key and entry.key in self._keys:
            raise self.fail(6, f"entry {entry.seq} takes the inbox row {entry.key} again")
        self._keys.add(entry.key)
        if entry.note or not isinstance(event, EffectResult):
            return
        if event.effect_id not in self.effects or event.effect_id in self.outcomes:
            why = "has one" if event.effect_id in self.outcomes else "was never asked for"
            raise self.fail(6, f"entry {entry.seq} takes an outcome of {event.effect_id}, which {why}")
        if isinstance(event, Answered) and event.verb in ("approve", "edit") and not event.cancelled and not entry.key:
            raise self.fail(9, f"entry {entry.seq} is a yes to {event.effect_id} that nobody has sent")
        self.outcomes[event.effect_id] = kind_of(event)
        if isinstance(event, ChildEnded):
            self._ends[event.effect_id] = event

    def _check_told(self, entry: Entry) -> None:
        """What a person wants of a run its children hear in the same entry, and one that has ended has cancelled them."""
        told = {effect.effect_id: effect.command["type"] for effect in entry.effects if isinstance(effect, SignalChild)}
        self._cancelled.update(target for target, kind in told.items() if kind == kind_of(Cancel))
        replayed, kind = self.replayed, kind_of(entry.event)
        gone = self._cancelled | replayed.cancelled_effects
        living = [key for key, effect in replayed.outstanding.items() if isinstance(effect, StartChild) and key not in gone]
        if self.machine.is_terminal(replayed.state):
            if living:
                raise self.fail(8, f"it is in {replayed.state}, and has not told {child_run_id(living[0])} to end")
            if asked := [key for key, effect in replayed.outstanding.items() if isinstance(effect, AskPerson) and key not in gone]:
                raise self.fail(8, f"it is in {replayed.state}, and still asks {asked[0]}")
        must_hear = living if isinstance(entry.event, Pause | Unpause | Cancel) and not entry.note else []
        if deaf := [key for key in must_hear if told.get(key) != kind]:
            raise self.fail(6, f"entry {entry.seq} is a {kind}, and {child_run_id(deaf[0])} is not told of it")

    def overdue(self) -> str:
        """What should have ended by now, and has not, though somebody drives it; empty for nothing."""
        run, limit_s, by = self.replayed, self.limit_s(), self.now() - NOTICED_S
        if self.machine.is_terminal(run.state):
            return ""
        if limit_s is not None and self.began_at + limit_s < by:
            return f"it may take {limit_s:g} s, and goes on"
        gone = run.cancelled_effects | self._copied
        late = [
            key
            for key, effect in run.outstanding.items()
            if isinstance(effect, AskPerson) and 0 < effect.expires_at < by and key not in gone
        ]
        return f"{late[0]} is still asked, and its time is over" if late else ""

    def check_performance(self, performance: Performance, ledger: PerformanceLog, *, patience_s: float, let_go: set[str]) -> None:
        """One of its effects has begun to be performed.

        Args:
            performance: it.
            ledger: where it and the earlier ones are.
            patience_s: how long a process may not know what it has written, because the store does not answer.
            let_go: processes that have let go of it; what ignores its cancel may go on there for a while.
        """
        key = performance.key
        earlier = ledger.of(key)[:-1]
        effect = self.effects.get(key)
        if effect is None:
            raise self.fail(2, f"{key} is performed, and the journal does not know it")
        if key in self.outcomes and not self.robbed:
            raise self.fail(2, f"{key} is performed after its outcome was taken")
        called_off_at = self.called_off_at.get(key)
        if called_off_at is not None and self.now() > called_off_at + patience_s and not self.robbed:
            raise self.fail(2, f"{key} is performed after it was called off")
        if earlier and self.is_once(effect):
            raise self.fail(2, f"{key} is performed again, and it must never be")
        if any(one.ended_at is None and one.process not in let_go for one in earlier) and not self.robbed:
            raise self.fail(2, f"{key} is performed twice at once")
        busy = ledger.going_on(performance.process, performance.device_id)
        if busy > performance.slots > 0:
            raise self.fail(2, f"{performance.device_id} performs {busy} at once, and may {performance.slots}")
        self.performed(performance)

    # -- the end -----------------------------------------------------------------------------------

    def check_end(self, store: Memory, ledger: PerformanceLog) -> None:
        """Nobody drives it any more, and nothing else will happen to it."""
        row = store.runs[self.replayed.id]
        again: Run[M] = Run(self.machine, row.run_id)
        try:
            again.replay(packer(self.machine).unpack(record) for record in store.records[row.run_id])
        except JournalMismatch as mismatch:
            raise self.fail(5, str(mismatch)) from None
        if found := difference(again, self.replayed):
            raise self.fail(5, found)
        if set(again.outstanding) != {effect for effect in self.effects if effect not in self.outcomes}:
            raise self.fail(6, "what is outstanding is not what has no outcome")
        asked = {effect_id for effect_id, effect in again.outstanding.items() if isinstance(effect, AskPerson)}
        if asked != {inquiry.inquiry_id for inquiry in store.inquiries.values() if inquiry.run_id == row.run_id and not inquiry.answer}:
            raise self.fail(6, f"the journal asks {sorted(asked)}, the store lists other open questions")
        if again.ended != (row.status == "ended"):
            raise self.fail(8, f"its row says {row.status}; its journal is in {again.state} with {len(again.outstanding)} outstanding")
        if again.ended and not row.outcome:
            raise self.fail(8, "it has ended, and its row does not say how")
        memory: Any = again.memory
        if not again.ended and not memory.paused and ((startable := self.goes_on()) or not (asked or memory.blocked_children)):
            waits = f"{startable} by itself" if startable else "it asks nobody"
            raise self.fail(8, f"nobody drives it any more, it is in {again.state}, and {waits}")
        if self._is_cancelled and not again.ended and not memory.blocked_children:  # one below may have refused its cancel
            raise self.fail(8, "its cancel was accepted, nobody drives it any more, and it has not ended")
        if ledger.performing:
            raise self.fail(6, f"{', '.join(ledger.performing)} still performed, and nobody waits for it")
        for key, effect in self.effects.items():
            done = [performance for performance in ledger.of(key) if performance.how == "done"]
            if len(done) > 1 and self.is_once(effect):
                raise self.fail(6, f"{key} was done {len(done)} times")

    def check_children(self, store: Memory) -> None:
        """Every child was asked for by its parent, was told what its parent had to tell it, and ended as its parent was told."""
        run, rows, settled = self.replayed.id, store.runs, list(self.outcomes)
        own = {key: effect for key, effect in self.effects.items() if key not in self._copied}
        for key, effect in own.items():
            told = not isinstance(effect, SignalChild) or key not in self.outcomes or (child_run_id(effect.effect_id), key) in store.inbox
            if isinstance(effect, SignalChild) and not told and effect.effect_id not in settled[: settled.index(key)]:
                raise self.fail(6, f"{key} was to tell {child_run_id(effect.effect_id)} something, and never did")
        for row in rows.values():
            asked = self.effects.get(f"{run}:{row.run_id.removeprefix(run + '.')}")
            if row.parent == run and not isinstance(asked, StartChild):
                raise self.fail(6, f"{row.run_id} is a run, and {run} has not asked for it")
        for key, effect in own.items():
            child = rows.get(child_run_id(key))
            ended = self._ends.get(key)
            if not isinstance(effect, StartChild) or ended is None or ended.code in ("interrupted", "refused"):
                continue
            if child is None or (child.status, child.outcome) != ("ended", ended.outcome):
                raise self.fail(6, f"{run} was told that {key} has {ended.outcome}; the child is {child}")


class WatchedPlainly(Watched[M]):
    """One run of a machine of which only its table is known: it may leave states and wait as the table and its memory say."""

    def __init__(self, machine: Machine[M], run_id: str, now: Callable[[], float]) -> None:
        super().__init__(machine, run_id, now)
        matrix = machine.matrix()
        self.exits = frozenset((str(state), str(target)) for state in matrix if machine.is_terminal(state) for target in matrix[state])

    def unnamed_wait(self, run: Run[M]) -> str:
        """A time is a name, too."""
        memory: Any = run.memory
        return super().unnamed_wait(run) if memory.wake_at() is None else ""


def canonical(subject: object) -> bytes:
    """JSON that is the same for the same thing."""
    return msgspec.json.encode(subject, order="deterministic")
