"""Common part of the small worlds: a run of any machine, its fault budget, and a fully checked step.

Time stands still, except for one jump past the wall limit if the budget allows it. A state is therefore the memory
of the run, and effects are named by their subject, not by their place in the journal.
"""

from __future__ import annotations

import copy
import hashlib
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from asterism.constellation.machine.memory import ConstellationMemory
from asterism.engine.control.run_control import (
    Answered,
    BatchEnded,
    Cancel,
    CancelEffect,
    EffectCancelled,
    OwnershipAcquired,
    Pause,
    Unpause,
)
from asterism.engine.kernel.journal import JournalMismatch
from asterism.engine.kernel.machine import Effect, EffectResult, Event, Machine, RecoveryPolicy, kind_of
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.permissions import ALL
from asterism.engine.kernel.run import Run
from asterism.engine.kernel.snapshot import Snapshot, restore_snapshot, take_snapshot
from asterism.errors import AsterismError, ForbiddenTarget, IllegalTransition, Refused
from asterism.testing.invariants import InvariantViolated, constellation_facts, difference, facts_of
from tests.support.machine_harness import as_shown

RUN = "r"
NOW = 1000.0
LATE = 1e9
_EFFECT_ID = re.compile(RUN + r":\d+\.\d+")
_encode = msgspec.json.Encoder(order="sorted").encode

M = TypeVar("M")


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Maximum number of faults of each kind in one run.

    Attributes:
        edits: answers of the planner, the supervisor or a handler that change where it goes, or try to.
        live_edits: edits, or words, that come from outside, at any moment.
        failures: attempts that fail.
        crashes: owners that die; another one claims the run.
        cancels, pauses, lapses: cancels, pauses (each may be lifted once), jumps of the clock past the wall limit.
    """

    edits: int = 0
    live_edits: int = 0
    failures: int = 0
    crashes: int = 0
    cancels: int = 0
    pauses: int = 0
    lapses: int = 0


class Situation(Generic[M]):
    """One state of a small world.

    Attributes:
        run: the machine with its memory, as its owner has it.
        left: what the budget still allows.
        drained: nothing has happened since the last look at the whole.
        epoch: how often the run was claimed.
        asleep: what is performed goes on by itself only when it is woken.
        called_off: what is performed knows that a cancel is wanted.
    """

    def __init__(self, run: Run[M], left: Budget, *, drained: bool, epoch: int) -> None:
        self.run = run
        self.left = left
        self.drained = drained
        self.epoch = epoch
        self.asleep = False
        self.called_off = False
        self._frozen: Snapshot | None = None

    def copy_of_run(self) -> Run[M]:
        """Return a copy of the run that shares nothing that a step changes."""
        run = self.run
        made: Run[M] = Run(run.machine, run.id)
        made.state, made.seq, made.rules = run.state, run.seq, run.rules
        made.memory = _copied(run.memory, {})
        made.outstanding = dict(run.outstanding)
        made.abandoned = set(run.abandoned)
        made.fixed_requests = dict(run.fixed_requests)
        return made

    def twin(self) -> Run[M]:
        """Return the run restored from a snapshot of this state.

        Raises:
            InvariantViolated: the snapshot cannot be read.
        """
        self._frozen = self._frozen or take_snapshot(self.run, "")
        twin = restore_snapshot(self.run.machine, self._frozen, "") if self._frozen else None
        if twin is None:
            raise InvariantViolated(5, "its snapshot cannot be read", self.run.history)
        return twin


_PLAIN = frozenset({str, int, float, bool, type(None), tuple, frozenset})


def _copied(value: Any, known: dict[int, Any]) -> Any:
    """A copy of what a memory holds; ``known`` by id, for what it holds twice. What is frozen is shared: no step changes it."""
    kind = type(value)
    if kind is dict:
        return {key: it if type(it) in _PLAIN else _copied(it, known) for key, it in value.items()}
    if kind is list:
        return [_copied(it, known) for it in value]
    if kind is set:
        return set(value)
    if isinstance(value, str) or kind in _PLAIN or getattr(getattr(kind, "__struct_config__", None), "frozen", False):
        return value
    if id(value) not in known:
        known[id(value)] = made = copy.copy(value)
        for name in getattr(value, "__struct_fields__", None) or vars(value):
            if type(held := getattr(value, name)) not in _PLAIN:
                setattr(made, name, _copied(held, known))
    return known[id(value)]


def _in_order(value: Any, names: dict[str, str]) -> Any:
    """Return a value with its dicts of effects sorted by name; any other value unchanged."""
    if isinstance(value, set):
        return sorted(names.get(it, it) for it in value)
    if isinstance(value, dict):
        return sorted(([names.get(key, key), it] for key, it in value.items()), key=operator.itemgetter(0))
    return value


def _difference(run: Run[Any], twin: Run[Any]) -> str:
    """In what two runs differ; empty when they agree. Most do, and are written alike: that is seen sooner than told."""
    facts = constellation_facts if isinstance(run.memory, ConstellationMemory) else facts_of
    return "" if take_snapshot(run, "") == take_snapshot(twin, "") else difference(run, twin, facts)


Move = tuple[str, Callable[[], Situation[M]]]


class SmallRun(ABC, Generic[M]):
    """What can happen to one run of a machine: a ``Space``, but for what is the machine's own.

    Args:
        machine: of the run.
        budget: how much trouble there may be.

    Attributes:
        exits: changes of state that a table allows from one end to another.
    """

    exits: ClassVar[frozenset[tuple[str, str]]] = frozenset()

    def __init__(self, machine: Machine[M], budget: Budget) -> None:
        self._machine = machine
        self._budget = budget

    @abstractmethod
    def first(self) -> Event:
        """Return the first event of the run."""

    @abstractmethod
    def name_of(self, effect: Effect) -> str:
        """Return the name of an effect; cancellations are named in this class."""

    @abstractmethod
    def outcomes(self, state: Situation[M], effect_id: str, effect: Effect) -> Iterator[Move[M]]:
        """Yield the possible results of an outstanding effect that is not a cancellation."""

    @abstractmethod
    def watch(self, run: Run[M]) -> Callable[[Event], None]:
        """Inspect a run before an event; return a check to call after it, which raises InvariantViolated."""

    @abstractmethod
    def commands(self, state: Situation[M]) -> Iterator[Move[M]]:
        """Yield the commands of this machine, in addition to those of every machine."""

    def remembered(self, run: Run[M]) -> dict[str, Any]:
        """Return the complete state of the run, by name."""
        memory: Any = run.memory
        return msgspec.structs.asdict(memory)

    def why_quiet(self, run: Run[M]) -> str:
        """Return the state of a run that waits for nothing it can name; an empty text otherwise."""
        if run.ended or run.outstanding or run.memory.paused or run.memory.wake_at() == 0.0:  # type: ignore[attr-defined]
            return ""
        return f"it is in {run.state}, nothing is outstanding, and it is not paused"

    # -- a space -----------------------------------------------------------------------------------

    def start(self) -> Situation[M]:
        """Return the submitted run."""
        run = Run(self._machine, RUN)
        run.take(self.first(), at=NOW, actor="person", permissions=ALL)
        run.take(OwnershipAcquired(epoch=1, owner="p"), at=NOW, actor="system")
        return Situation(run, self._budget, drained=False, epoch=1)

    def is_end(self, state: Situation[M]) -> bool:
        """Return True if the run has ended."""
        return state.run.ended

    def key(self, state: Situation[M]) -> bytes:
        """Return a digest of the state that uses names in place of positions in the journal."""
        run = state.run
        names = {effect_id: self._name(effect, run.outstanding) for effect_id, effect in run.outstanding.items()}
        facts = {name: _in_order(value, names) for name, value in self.remembered(run).items()}
        outstanding = [sorted(names.values()), _in_order(run.abandoned, names)]
        told = _encode([run.state, facts, outstanding, state.left, state.drained, state.asleep]).decode()
        outstanding = [sorted(names.values()), _in_order(run.cancelled_effects, names)]
        told = _encode([run.state, facts, outstanding, state.left, state.drained, state.asleep, state.called_off]).decode()
        return hashlib.blake2b(_EFFECT_ID.sub(lambda found: names.get(found[0], "gone"), told).encode(), digest_size=16).digest()

    def moves(self, state: Situation[M]) -> Iterator[Move[M]]:
        """Yield every possible move."""
        if not state.drained:
            yield "drained", lambda: self.take(state, [BatchEnded()], drained=True)
        for effect_id, effect in state.run.outstanding.items():
            if isinstance(effect, CancelEffect):
                target = state.run.outstanding.get(effect.effect_id)
                lost: list[Event] = [target.interrupted(effect.effect_id, "called off")] if target else []
                events = [*lost, EffectCancelled(effect_id=effect_id)]
                yield f"{self._name(effect, state.run.outstanding)} is done", lambda events=events: self.take(state, events)  # type: ignore[misc]
            else:
                yield from self.outcomes(state, effect_id, effect)
        if not state.run.ended:
            yield from self._trouble(state)

    def _trouble(self, state: Situation[M]) -> Iterator[Move[M]]:
        left, run = state.left, state.run
        table = run.machine.table[run.state]
        if left.crashes:
            yield "crash", lambda: self._crash(state)
        if left.cancels and Cancel in table:
            yield "cancel", lambda: self.take(state, [Cancel()], spend="cancels")
        if Pause in table and run.memory.paused:  # type: ignore[attr-defined]
            yield "unpause", lambda: self.take(state, [Unpause()])
        elif left.pauses and Pause in table:
            yield "pause", lambda: self.take(state, [Pause()], spend="pauses")
        yield from self.commands(state)
        if left.lapses and run.machine.is_terminal(run.state) is False:
            yield "the wall limit passes", lambda: self.take(state, [BatchEnded()], drained=True, spend="lapses", at=LATE)

    def _name(self, effect: Effect, outstanding: dict[str, Effect]) -> str:
        if not isinstance(effect, CancelEffect):
            return self.name_of(effect)
        target = outstanding.get(effect.effect_id)
        return f"withdrawal of {self._name(target, outstanding) if target else 'what is gone'}"

    # -- taking ------------------------------------------------------------------------------------

    def _crash(self, state: Situation[M]) -> Situation[M]:
        """Crash the owner between two appends; the next owner settles effects that must not be repeated."""
        memory: Any = state.run.memory
        outstanding, withdrawn = state.run.outstanding, state.run.cancelled_effects
        redone = tuple(
            key
            for key, it in outstanding.items()
            if it.performed_outside and memory.recovery_of(key, it) is not RecoveryPolicy.DO_NOT_RETRY and key not in withdrawn
        )
        lost: list[Event] = [
            it.interrupted(key, "its owner died")
            for key, it in outstanding.items()
            if key in withdrawn or memory.recovery_of(key, it) is RecoveryPolicy.DO_NOT_RETRY
        ]
        claimed = OwnershipAcquired(epoch=state.epoch + 1, owner="p", retried=redone)
        return self.take(state, [claimed, *lost], spend="crashes", epoch=state.epoch + 1)

    def take(
        self, state: Situation[M], events: Sequence[Event], *, drained: bool = False, spend: str = "", at: float = NOW, epoch: int = 0
    ) -> Situation[M]:
        """Return the state after these events.

        Args:
            state: before; it stays as it is.
            events: taken one by one.
            drained: the last of them looks at the whole.
            spend: what of the budget it uses up; empty for nothing.
            at: when, seconds since the epoch.
            epoch: of the claim, if it is a new one.

        Raises:
            InvariantViolated: it must never be.
        """
        left = msgspec.structs.replace(state.left, **{spend: getattr(state.left, spend) - 1}) if spend else state.left
        run, twin = state.copy_of_run(), state.twin()
        for event in events:
            self._take_checked(run, twin, event, at)
        if drained and at == NOW and (why := self.why_quiet(run)):
            raise InvariantViolated(8, why, run.history)
        if drained and run.memory.wake_at() == 0.0:  # type: ignore[attr-defined]
            if run.seq == state.run.seq:
                raise InvariantViolated(8, "it wants to be looked at again at once, and nothing comes of it", run.history)
            drained = False
        if run.seq == state.run.seq and not spend:
            drained = drained or state.drained  # no event was accepted
        return Situation(run, left, drained=drained, epoch=epoch or state.epoch)

    def _take_checked(self, run: Run[M], twin: Run[M], event: Event, at: float) -> None:
        """Take one event, replay its packed entry on the twin, compare both, and check the invariants."""
        before, look_after = run.state, self.watch(run)
        try:
            entry = run.take(as_shown(run, event), at=at, actor="somebody", permissions=ALL)
        except ForbiddenTarget as error:
            raise InvariantViolated(5, f"{kind_of(event)} breaks its move: {error}", run.history) from error
        except (IllegalTransition, Refused) as refused:
            if isinstance(event, EffectResult) and not isinstance(event, Answered):
                raise InvariantViolated(6, f"an outcome was refused: {refused}", run.history) from None
            return
        except (AsterismError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise InvariantViolated(5, f"{kind_of(event)} breaks its move: {type(error).__name__}: {error}", run.history) from error
        if entry is None:
            if found := _difference(run, twin):
                raise InvariantViolated(5, f"{kind_of(event)} made no entry and changed something: {found}", run.history)
            return
        pack = packer(run.machine)
        try:
            twin.replay([pack.unpack(pack.pack(entry))])
        except JournalMismatch as mismatch:
            raise InvariantViolated(5, str(mismatch), run.history) from None
        if found := _difference(run, twin):
            raise InvariantViolated(5, found, run.history)
        if run.machine.is_terminal(before) and run.state != before and (before, run.state) not in self.exits:
            raise InvariantViolated(4, f"from {before} to {run.state}", run.history)
        look_after(event)
