"""The checker: stands beside a world and asks the invariants after every entry that becomes durable.

It keeps its own replay of each journal, entry by entry from the packed records, so what it looks at is
what a recovery would see. The first violation counts; the world stops at it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import msgspec

from asterism.constellation.task import TaskStar
from asterism.kernel.journal import Entry, Record
from asterism.kernel.machine import Effect, Machine, Outcome, Redo
from asterism.kernel.run import JournalMismatch, Run, packer
from asterism.kernel.snapshot import Snapshot, thaw
from asterism.machines.constellation_agent.events import Dispatch, TaskEnded
from asterism.machines.constellation_agent.memory import AgentMemory
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.control import Answered, Ask, ChildEnded, Claimed, Relay, StartChild, child_of
from asterism.runtime.ports import Commit, InquiryRow, RunRow
from asterism.simulation.device import Ledger, Performance
from asterism.simulation.invariants import (
    EDITABLE,
    SETTLED,
    InvariantViolated,
    cycle_of,
    difference,
    frozen_form,
    held_by,
    subject_of,
    unnamed_wait,
    why_not_startable,
)
from asterism.stores.memory import Memory

SMALL = 64
"""Tasks up to which everything is checked after every entry; larger constellations are looked through at intervals."""
STRIDE = 200
"""Entries between two looks through a large constellation."""


class _Watched:
    """One run as the checker knows it."""

    def __init__(self, machine: Machine[AgentMemory], run: str) -> None:
        self.replayed: Run[AgentMemory] = Run(machine, run)
        self.epoch = 0
        self.writer = ""
        self.effects: dict[str, Effect] = {}
        self.outcomes: dict[str, str] = {}
        self.frozen: dict[str, tuple[bytes, bytes]] = {}
        self.generation: tuple[int, int] = (0, -1)
        self.approved: set[bytes] = set()
        self.approved_plans: set[int] = set()
        self.unsure: set[str] = set()
        self.keys: set[str] = set()
        self.called_off_at: dict[str, float] = {}
        self.ends: dict[str, ChildEnded] = {}

    def fail(self, number: int, words: str) -> InvariantViolated:
        return InvariantViolated(number, words, self.replayed.story)


class Checker:
    """Checks every run of a world.

    Args:
        machine: of the runs.
        now: seconds since the epoch.
        ledger: what devices really performed.

    Attributes:
        violation: the first one found.
        robbed: an owner was declared dead while it lived, so that two may perform at once for a while.
        let_go: processes that have let go of their run; a device that ignores its cancel may go on there for a while.
        patience_s: how long a process may not know what it has written, because the store does not answer.
        entries: how many were checked.
    """

    def __init__(self, now: Callable[[], float], machine: Machine[AgentMemory] = CONSTELLATION_AGENT) -> None:
        self._machine = machine
        self._now = now
        self._runs: dict[str, _Watched] = {}
        self.violation: InvariantViolated | None = None
        self.robbed = False
        self.let_go: set[str] = set()
        self.patience_s = 0.0
        self.entries = 0

    # -- when something happens --------------------------------------------------------------------

    def submitted(self, run: str, *records: Record) -> None:
        """A run was written with its first records."""
        if run in self._runs:
            self._fail(self._runs[run].fail(6, f"{run} was started twice"))
        self._runs[run] = _Watched(self._machine, run)
        self._guarded(lambda: self._take(self._runs[run], records))

    def committed(self, writer: str, commit: Commit, live: Run[AgentMemory] | None) -> None:
        """A commit has become durable.

        Args:
            writer: the process that wrote it.
            commit: what it wrote.
            live: the writer's own state of the run.
        """
        self._guarded(lambda: self._check_commit(self._runs[commit.run], writer, commit, live))

    def began(self, performance: Performance, ledger: Ledger) -> None:
        """A device has begun to perform something."""
        self._guarded(lambda: self._check_performance(self._runs[performance.run], performance, ledger))

    def quiet(self, run: str, process: str, live: Run[AgentMemory] | None) -> None:
        """Nothing was written for a while; a process that has not written its claim yet need not know why."""
        if live is not None and self._runs[run].writer == process and (why := unnamed_wait(live, self._now())):
            self._fail(self._runs[run].fail(8, why))

    def over(self, store: Memory, ledger: Ledger) -> None:
        """Nobody drives the runs any more, and nothing else will happen to them."""
        for run, row in store.runs.items():
            inquiries = [inquiry for inquiry in store.inquiries.values() if inquiry.run == run]
            self._guarded(functools.partial(self._check_end, self._runs[run], row, store.records[run], inquiries, ledger))
            self._guarded(functools.partial(self._check_children, self._runs[run], store))

    def _guarded(self, check: Callable[[], None]) -> None:
        try:
            check()
        except InvariantViolated as violated:
            self._fail(violated)

    def _fail(self, violated: InvariantViolated) -> None:
        self.violation = self.violation or violated

    # -- a commit ----------------------------------------------------------------------------------

    def _check_commit(self, it: _Watched, writer: str, commit: Commit, live: Run[AgentMemory] | None) -> None:
        first = self._machine_event(commit.records[0]) if commit.records else None
        if commit.epoch != it.epoch:
            if commit.epoch < it.epoch or not isinstance(first, Claimed) or first.epoch != commit.epoch:
                raise it.fail(7, f"{writer} wrote under epoch {commit.epoch}; the journal is at {it.epoch}")
            it.epoch, it.writer = commit.epoch, writer
        if writer != it.writer:
            raise it.fail(7, f"{writer} wrote under epoch {commit.epoch}, which {it.writer} has claimed")
        self._take(it, commit.records)
        replayed = it.replayed
        large = len(replayed.memory.constellation.tasks) > SMALL
        if live is not None and (not large or replayed.seq % STRIDE < len(commit.records)) and (found := difference(live, replayed)):
            raise it.fail(5, found)
        if commit.snapshot is not None and (found := self._misremembered(commit.snapshot, replayed)):
            raise it.fail(5, found)
        if commit.state != replayed.state:
            raise it.fail(5, f"the run's row says {commit.state}, its journal {replayed.state}")

    def _misremembered(self, snapshot: Snapshot, replayed: Run[AgentMemory]) -> str:
        thawed = thaw(self._machine, snapshot, snapshot.rules)
        if thawed is None:
            return "a snapshot cannot be thawed"
        found = difference(thawed, replayed)
        return f"thawed from its snapshot: {found}" if found else ""

    def _machine_event(self, record: Record) -> object:
        return packer(self._machine).unpack(record).event

    def _take(self, it: _Watched, records: Sequence[Record]) -> None:
        for record in records:
            entry = packer(self._machine).unpack(record)
            self._check_accepted(it, entry)
            before, running = it.replayed.state, set(it.replayed.memory.board.running if it.replayed.memory.board else ())
            try:
                it.replayed.replay([entry])
            except JournalMismatch as mismatch:
                raise it.fail(5, str(mismatch)) from None
            self.entries += 1
            if self._machine.is_terminal(before) and it.replayed.state != before:
                raise it.fail(4, f"from {before} to {it.replayed.state}")
            self._check_graph(it, entry)
            self._check_outcome(it, entry)
            self._check_effects(it, entry, running)

    def _check_graph(self, it: _Watched, entry: Entry) -> None:
        memory = it.replayed.memory
        constellation = memory.constellation
        generation = (memory.restarts, constellation.version if memory.board else -1)
        edited = generation != it.generation
        is_yes = entry.event.from_outside and bool(entry.key)
        if edited and memory.options.approve_edits and it.generation[1] >= 0 and not is_yes:
            raise it.fail(9, f"entry {entry.seq} changes the constellation, and nobody has approved it")
        if generation[0] != it.generation[0]:
            self._check_archived(it)
            for known in (it.frozen, it.approved, it.unsure):
                known.clear()
        it.generation = generation
        if not edited and len(constellation.tasks) > SMALL and it.replayed.seq % STRIDE:
            return
        if edited and (cycle := cycle_of(constellation)):
            raise it.fail(1, " -> ".join(cycle))
        ok, errors = constellation.validate_dag()
        if not ok:
            raise it.fail(1, "; ".join(errors))
        frozen = {task.task_id: frozen_form(constellation, task) for task in constellation.tasks.values() if task.status not in EDITABLE}
        for task_id, (planned, ended) in it.frozen.items():
            if task_id not in constellation.tasks:
                raise it.fail(3, f"{task_id} was read-only, and is gone")
            now_planned, now_ended = frozen.get(task_id, (planned, b""))
            if ended and now_ended != ended:
                raise it.fail(4, f"{task_id} had settled as {ended.decode()}, and is {now_ended.decode() or 'editable'} now")
            if now_planned != planned:
                raise it.fail(3, f"{task_id} is read-only, and was changed from {planned.decode()} to {now_planned.decode()}")
        it.frozen = frozen

    def _check_archived(self, it: _Watched) -> None:
        """A restart settles what ran; what had settled is archived as it was."""
        archived = {task["task_id"]: task for task in it.replayed.memory.archive[-1]["tasks"]}
        for task_id in it.frozen:
            if task_id not in archived or archived[task_id].get("status", "PENDING") not in SETTLED:
                raise it.fail(4, f"{task_id} was not settled when its constellation was archived")

    # -- outcomes and effects ----------------------------------------------------------------------

    def _check_accepted(self, it: _Watched, entry: Entry) -> None:
        event = entry.event
        if entry.key and entry.key in it.keys:
            raise it.fail(6, f"entry {entry.seq} takes the inbox row {entry.key} again")
        it.keys.add(entry.key)
        if entry.note or not isinstance(event, Outcome):
            return
        if event.effect not in it.effects or event.effect in it.outcomes:
            why = "has one" if event.effect in it.outcomes else "was never asked for"
            raise it.fail(6, f"entry {entry.seq} takes an outcome of {event.effect}, which {why}")
        it.outcomes[event.effect] = type(event).__name__

    def _check_outcome(self, it: _Watched, entry: Entry) -> None:
        event = entry.event
        effect = it.effects.get(event.effect) if isinstance(event, Outcome) and not entry.note else None
        if isinstance(event, ChildEnded) and effect is not None:
            it.ends[event.effect] = event
        if isinstance(event, Answered) and isinstance(effect, Ask) and event.verb in ("approve", "edit") and not event.withdrawn:
            if not entry.key:
                raise it.fail(9, f"entry {entry.seq} is a yes to {event.effect} that nobody has sent")
            if "kind" in effect.subject:
                it.approved_plans.add(it.replayed.memory.restarts)
                return
            changes = event.value if event.verb == "edit" else {}
            subject = {**effect.subject, "arguments": {**effect.subject["arguments"], **changes}}
            it.approved.add(_canonical(subject))
        if (
            isinstance(event, TaskEnded)
            and isinstance(effect, Dispatch)
            and event.error
            and event.error.code in ("interrupted", "device_lost")
        ):
            task = it.replayed.memory.constellation.tasks.get(effect.task_id)
            if effect.redo is Redo.NEVER and task is not None and not task.retry.retries(event.error.code, repeatable=False):
                it.unsure.add(effect.task_id)

    def _check_effects(self, it: _Watched, entry: Entry, running: set[str]) -> None:
        memory = it.replayed.memory
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            it.effects[effect_id] = effect
            if effect.withdraws:
                it.called_off_at[effect.withdraws] = self._now()
            if not isinstance(effect, Dispatch | StartChild | Ask):
                continue
            if isinstance(effect, Ask) and "kind" in effect.subject:
                continue
            task_id = _task_of(memory, effect_id, effect)
            task = memory.constellation.tasks[task_id]
            if task_id not in running:
                self._check_start(it, task)
            if not isinstance(effect, Ask):
                if memory.paused:
                    raise it.fail(2, f"{task_id} was started while the run was paused")
                if memory.options.approve_plan and memory.restarts not in it.approved_plans:
                    raise it.fail(9, f"{effect_id} runs {task_id} of a plan that nobody has approved")
                shown = subject_of(effect, task)
                if task.requires_approval and _canonical(shown) not in it.approved:
                    raise it.fail(9, f"{effect_id} runs {task_id} with {shown['arguments']}, which nobody has approved")
                if task_id in it.unsure and _canonical(shown) not in it.approved:
                    raise it.fail(9, f"{effect_id} repeats {task_id}, which may have finished, as nobody has approved")
                it.unsure.discard(task_id)

    def _check_start(self, it: _Watched, task: TaskStar) -> None:
        memory = it.replayed.memory
        if why := why_not_startable(memory.constellation, task):
            raise it.fail(2, why)
        if memory.asking and task.task_id in held_by(memory):
            raise it.fail(2, f"{task.task_id} started while the planner is asked about {', '.join(memory.asking.batch)}")

    def _check_performance(self, it: _Watched, performance: Performance, ledger: Ledger) -> None:
        key = performance.key
        earlier = ledger.of(key)[:-1]
        effect = it.effects.get(key)
        if effect is None:
            raise it.fail(2, f"{key} is performed, and the journal does not know it")
        if key in it.outcomes and not self.robbed:
            raise it.fail(2, f"{key} is performed after its outcome was taken")
        called_off_at = it.called_off_at.get(key)
        if called_off_at is not None and self._now() > called_off_at + self.patience_s and not self.robbed:
            raise it.fail(2, f"{key} is performed after it was called off")
        if earlier and effect.redo is Redo.NEVER:
            raise it.fail(2, f"{key} is performed again, and it must never be")
        if any(one.ended_at is None and one.process not in self.let_go for one in earlier) and not self.robbed:
            raise it.fail(2, f"{key} is performed twice at once")

    # -- the end -----------------------------------------------------------------------------------

    def _check_children(self, it: _Watched, store: Memory) -> None:
        """Every child was asked for by its parent, was told what its parent had to tell it, and ended as its parent was told."""
        run, rows, settled = it.replayed.id, store.runs, list(it.outcomes)
        for key, effect in it.effects.items():
            told = not isinstance(effect, Relay) or key not in it.outcomes or (child_of(effect.target), key) in store.inbox
            if isinstance(effect, Relay) and not told and effect.target not in settled[: settled.index(key)]:
                raise it.fail(6, f"{key} was to tell {child_of(effect.target)} something, and never did")
        for row in rows.values():
            asked = it.effects.get(f"{run}:{row.run.removeprefix(run + '.')}")
            if row.parent == run and not isinstance(asked, StartChild):
                raise it.fail(6, f"{row.run} is a run, and {run} has not asked for it")
        for key, effect in it.effects.items():
            child = rows.get(child_of(key))
            ended = it.ends.get(key)
            if not isinstance(effect, StartChild) or ended is None or ended.code in ("interrupted", "refused"):
                continue
            if child is None or (child.status, child.outcome) != ("ended", ended.outcome):
                raise it.fail(6, f"{run} was told that {key} has {ended.outcome}; the child is {child}")

    def _check_end(self, it: _Watched, row: RunRow, records: Sequence[Record], inquiries: Sequence[InquiryRow], ledger: Ledger) -> None:
        again: Run[AgentMemory] = Run(self._machine, row.run)
        try:
            again.replay(packer(self._machine).unpack(record) for record in records)
        except JournalMismatch as mismatch:
            raise it.fail(5, str(mismatch)) from None
        if found := difference(again, it.replayed):
            raise it.fail(5, found)
        if set(again.outstanding) != {effect for effect in it.effects if effect not in it.outcomes}:
            raise it.fail(6, "what is outstanding is not what has no outcome")
        asked = {effect_id for effect_id, effect in again.outstanding.items() if isinstance(effect, Ask)}
        if asked != {inquiry.inquiry for inquiry in inquiries if not inquiry.answer}:
            raise it.fail(6, f"the journal asks {sorted(asked)}, the store lists other open questions")
        if again.ended != (row.status == "ended"):
            raise it.fail(8, f"its row says {row.status}; its journal is in {again.state} with {len(again.outstanding)} outstanding")
        if again.ended and not row.outcome:
            raise it.fail(8, "it has ended, and its row does not say how")
        if not again.ended and not again.memory.paused:
            held = held_by(again.memory)
            startable = [task_id for task_id in (again.memory.board.startable if again.memory.board else ()) if task_id not in held]
            if not (asked or again.memory.resting) or startable:
                waits = f"{', '.join(startable)} can start by itself" if startable else "it asks nobody"
                raise it.fail(8, f"nobody drives it any more, it is in {again.state}, and {waits}")
        if ledger.performing:
            raise it.fail(6, f"{', '.join(ledger.performing)} still performed, and nobody waits for it")
        for key, effect in it.effects.items():
            done = [performance for performance in ledger.of(key) if performance.how == "done"]
            if isinstance(effect, Dispatch) and len(done) > 1 and effect.redo is Redo.NEVER:
                raise it.fail(6, f"{key} was done {len(done)} times")


def _task_of(memory: AgentMemory, effect_id: str, effect: Dispatch | StartChild | Ask) -> str:
    if isinstance(effect, StartChild):
        return memory.attempts[effect_id].task_id
    return effect.task_id if isinstance(effect, Dispatch) else str(effect.subject["task_id"])


def _canonical(subject: object) -> bytes:
    return msgspec.json.encode(subject, order="deterministic")
