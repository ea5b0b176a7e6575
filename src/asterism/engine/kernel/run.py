"""A run: the state of one machine, moved forward event by event, each as an entry of its journal.

Pure: a run makes entries, and a store writes them. Live steps and replay share the same code.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Container, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from asterism.engine.kernel.data import error_text, read_back
from asterism.engine.kernel.journal import Entry, JournalMismatch, history_line, version_of
from asterism.engine.kernel.machine import Effect, EffectResult, Event, Machine, StepContext, kind_of
from asterism.engine.kernel.permissions import LOWEST, Permissions
from asterism.engine.kernel.phrase import phrase
from asterism.engine.kernel.refusal import verdict_of
from asterism.errors import IllegalTransition, InvalidInput, RunNewer

M = TypeVar("M")

HISTORY_LENGTH = 8


class Run(Generic[M]):
    """The live state of one run.

    Args:
        performs: False for a run that is only read: its fixed requests are not built.

    Attributes:
        state: name of the machine's state.
        memory: the machine's memory; written by moves only.
        seq: number of its last entry; 0 before the first.
        rules: version of its rules, from the last entry that acquired ownership, or else the first
            entry.
        submitters: actors of the first entry and of those that submit a copy of the run.
        outstanding: effects without an accepted result, by id, oldest first.
        abandoned: ids of the outstanding effects whose result only common rows will handle.
        touched: parts of the memory that the last move may have changed (``StepContext.touched``).
        fixed_requests: requests built when their effect was issued (``RequestFactory.fixed``), by
            effect id.
    """

    def __init__(self, machine: Machine[M], run_id: str, *, performs: bool = True) -> None:
        self.machine = machine
        self.id = run_id
        self.state: enum.StrEnum = machine.initial
        self.memory = machine.memory()
        self.seq = 0
        self.rules = 0
        self.submitters: tuple[str, ...] = ()
        self.outstanding: dict[str, Effect] = {}
        self.abandoned: set[str] = set()
        self.touched: Mapping[tuple[str, str], None] = {}
        self.fixed_requests: dict[str, Any] = {}
        self._fixed = frozenset(kind for kind, it in machine.requests.items() if it.fixed) if performs else frozenset()
        self._last: collections.deque[Entry] = collections.deque(maxlen=HISTORY_LENGTH)

    @property
    def history(self) -> list[str]:
        """Return the last entries, one line each."""
        return [history_line(entry) for entry in self._last]

    @property
    def cancelled_effects(self) -> set[str]:
        """Return the ids of outstanding effects that another outstanding effect cancels."""
        return {effect.cancels for effect in self.outstanding.values() if effect.cancels in self.outstanding}

    @property
    def ended(self) -> bool:
        """Return True if the machine is in a terminal state and no effect is outstanding."""
        return not self.outstanding and self.machine.is_terminal(self.state)

    def request(self, effect_id: str) -> Any:
        """Return the request of an outstanding effect: everything its performer receives."""
        if effect_id in self.fixed_requests:
            return self.fixed_requests[effect_id]
        effect = self.outstanding[effect_id]
        made_by = self.machine.requests.get(type(effect))
        return made_by.make(self, effect_id, effect) if made_by else effect

    def take(self, event: Event, *, at: float, actor: str, key: str = "", permissions: Permissions = LOWEST) -> Entry | None:
        """Handle one event and return its entry; None if nothing happened.

        The result of an effect that is not outstanding is noted without a step.

        Raises:
            IllegalTransition: the table has no row for the event; nothing has changed.
            ForbiddenTarget: a move returned a target that its row forbids. Drop this object: its memory
                may have changed, and the journal has not.
        """
        if isinstance(event, EffectResult) and event.effect_id not in self.outstanding:
            why = verdict_of(phrase("not_outstanding", effect=event.effect_id))
            return self.note(event, at=at, actor=actor, key=key, permissions=permissions, why=why)
        return self._step(event, self.context(event, at=at, actor=actor, permissions=permissions), key)

    def context(self, event: Event, *, at: float, actor: str, permissions: Permissions = LOWEST) -> StepContext:
        """Return the context of the step that handles an event as the next entry."""
        return StepContext(
            run_id=self.id,
            seq=self.seq + 1,
            at=at,
            actor=actor,
            state=self.state,
            rules=self.machine.rules if event.adopts_rules or not self.seq else self.rules,
            permissions=permissions,
            submitters=self.submitters,
            settles=event.effect_id if isinstance(event, EffectResult) else "",
            outstanding=self.outstanding,
            abandoned=self.abandoned,
        )

    def note(self, event: Event, *, at: float, actor: str, key: str, why: str, permissions: Permissions = LOWEST) -> Entry:
        """Return the entry of an event that is recorded without a step; ``why`` is the reason."""
        rules = self._adopted(event)
        entry = Entry(
            run_id=self.id,
            seq=self.seq + 1,
            at=at,
            actor=actor,
            event=event,
            state=self.state,
            key=key,
            note=why,
            rules=rules,
            permissions=permissions,
        )
        self._advance(entry)
        return entry

    def replay(self, entries: Iterable[Entry]) -> None:
        """Move the run forward over entries of its journal.

        Fixed requests are built only for effects without a result among these entries: a long
        journal may have thousands of planner requests.

        Raises:
            JournalMismatch: an entry is missing, or the program's table makes another entry.
            RunNewer: an entry was made by newer rules than the machine's.
        """
        entries = list(entries)
        settled = {entry.event.effect_id for entry in entries if isinstance(entry.event, EffectResult) and not entry.note}
        for entry in entries:
            if entry.seq != self.seq + 1 or entry.run_id != self.id:
                raise JournalMismatch(self.id, self.seq + 1, f"it is missing; entry {entry.seq} of run {entry.run_id} is in its place")
            if bool(entry.rules) != bool(self._adopted(entry.event)):
                raise JournalMismatch(
                    self.id, entry.seq, "only the first entry and entries that acquire ownership have a version of the rules"
                )
            if entry.rules > self.machine.rules:
                raise RunNewer(self.id, version_of(self.machine, entry.rules), version_of(self.machine))
            if entry.note:
                if entry.state != self.state:
                    raise JournalMismatch(
                        self.id, entry.seq, f"a note does not change the state {self.state}, but the journal has {entry.state}"
                    )
                self._advance(entry)
                continue
            if isinstance(entry.event, EffectResult) and entry.event.effect_id not in self.outstanding:
                raise JournalMismatch(self.id, entry.seq, f"it is a result of {entry.event.effect_id}, which is not outstanding")
            context = self.context(entry.event, at=entry.at, actor=entry.actor, permissions=entry.permissions)
            context.side_effects, context.replayed, context.rules = dict(entry.side_effects), True, entry.rules or self.rules
            try:
                replayed = self._step(entry.event, context, entry.key, settled, entry.effects)
            except Exception as error:  # boundary: a move may raise any error for an old entry, or for one that was changed
                raise JournalMismatch(self.id, entry.seq, f"it cannot be replayed ({error_text(error)})") from error
            if replayed is None or replayed.state != entry.state:
                today = replayed.state if replayed else "nothing"
                raise JournalMismatch(self.id, entry.seq, f"a replay leads to {today}, but the journal has {entry.state}")
            if replayed.effects != entry.effects:
                raise JournalMismatch(
                    self.id, entry.seq, f"a replay schedules other effects than the journal has{_difference(replayed, entry)}"
                )

    def _step(
        self, event: Event, context: StepContext, key: str, settled: Container[str] = (), journaled: tuple[Effect, ...] = ()
    ) -> Entry | None:
        try:
            target = self.machine.step(self.state, self.memory, event, context)
        except IllegalTransition as error:
            raise type(error)(error.machine, error.state, error.event, error.accepted, tuple(self.history)) from None
        if target is None:
            return None
        self.touched = context.touched
        asked = tuple(context.effects)
        effects = journaled if asked == journaled else tuple([_read_back(self.machine, effect) for effect in asked])
        entry = Entry(
            run_id=self.id,
            seq=context.seq,
            at=context.at,
            actor=context.actor,
            event=event,
            state=target,
            effects=effects,
            key=key,
            side_effects=context.side_effects,
            rules=context.rules if context.seq == 1 or event.adopts_rules else 0,
            permissions=context.permissions,
        )
        self._advance(entry, settled)
        self.machine.advanced(self.memory, self.outstanding, entry.at)
        return entry

    def _adopted(self, event: Event) -> int:
        """Return the version of the rules from an event's entry on; 0 if it does not change."""
        return self.machine.rules if self.seq == 0 or event.adopts_rules else 0

    def _advance(self, entry: Entry, settled: Container[str] = ()) -> None:
        self.seq = entry.seq
        states = self.machine.states
        self.state = entry.state if isinstance(entry.state, states) else states(entry.state)
        self.rules = entry.rules or self.rules
        self._last.append(entry)
        if entry.note:
            return
        if isinstance(entry.event, EffectResult):
            self.outstanding.pop(entry.event.effect_id, None)
            self.abandoned.discard(entry.event.effect_id)
            self.fixed_requests.pop(entry.event.effect_id, None)
        if entry.seq == 1 or entry.event.submits:
            self.submitters = (*self.submitters, entry.actor)
        if not entry.effects:
            return
        issued = dict(zip(entry.effect_ids(), entry.effects, strict=True))
        self.outstanding.update(issued)
        for effect_id, effect in issued.items():
            if type(effect) in self._fixed and effect_id not in settled:
                self.fixed_requests[effect_id] = self.machine.requests[type(effect)].make(self, effect_id, effect)


def _read_back(machine: Machine[Any], effect: Effect) -> Effect:
    name = type(effect).__name__
    if type(effect) not in machine.effects:
        raise TypeError(f"{machine.name} schedules {name}, which it does not declare: the run could not be replayed")
    try:
        return read_back(effect)
    except InvalidInput as error:
        raise TypeError(f"{machine.name} schedules {name}: {error}") from None


def _difference(today: Entry, entry: Entry) -> str:
    """Return the first difference between the effects of two entries, without values."""
    for now, then in zip(today.effects, entry.effects, strict=False):
        if type(now) is not type(then):
            return f": {kind_of(now)} in the replay, {kind_of(then)} in the journal"
        if fields := [field.encode_name for field in msgspec.structs.fields(now) if getattr(now, field.name) != getattr(then, field.name)]:
            return f": {kind_of(now)} differs in {', '.join(fields)}"
    return f": {len(today.effects)} in the replay, {len(entry.effects)} in the journal"
