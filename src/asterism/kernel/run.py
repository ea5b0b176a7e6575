"""A run: one machine instance with its own journal, taken forward event by event.

Pure: it makes entries and never writes them. The live step and the replay are the same code.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Container, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from asterism.errors import IllegalTransition, InvalidInput, RunNewer
from asterism.kernel.data import error_text, read_back
from asterism.kernel.journal import Entry, JournalMismatch, history_line, version_of
from asterism.kernel.machine import Effect, EffectResult, Event, Machine, StepContext, kind_of

M = TypeVar("M")

STORY_LENGTH = 8


class Run(Generic[M]):
    """The live state of one run.

    Args:
        machine: its machine.
        run_id: its id.
        performs: False for a run that is only read: it keeps no requests.

    Attributes:
        id: the run's id.
        state: name of the machine's state.
        memory: the machine's memory; written by moves only.
        seq: of the last entry.
        rules: version of the rules that it moves by: those of its last claim, or of its first entry.
        outstanding: effects without an accepted outcome, by id, oldest first.
        abandoned: ids among them whose outcome will have no consequence.
        touched: parts of the memory that the last move may have changed (``StepContext.touched``).
        fixed_requests: requests that were made when their effect was issued, by the ids of outstanding effects.
    """

    def __init__(self, machine: Machine[M], run_id: str, *, performs: bool = True) -> None:
        self.machine = machine
        self.id = run_id
        self.state: enum.StrEnum = machine.initial
        self.memory = machine.memory()
        self.seq = 0
        self.rules = 0
        self.outstanding: dict[str, Effect] = {}
        self.abandoned: set[str] = set()
        self.touched: Mapping[tuple[str, str], None] = {}
        self.fixed_requests: dict[str, Any] = {}
        self._fixed = frozenset(kind for kind, it in machine.requests.items() if it.fixed) if performs else frozenset()
        self._last: collections.deque[Entry] = collections.deque(maxlen=STORY_LENGTH)

    @property
    def history(self) -> list[str]:
        """The last entries, one line each."""
        return [history_line(entry) for entry in self._last]

    @property
    def cancelled_effects(self) -> set[str]:
        """Ids of outstanding effects that another outstanding effect calls off."""
        return {effect.cancels for effect in self.outstanding.values() if effect.cancels in self.outstanding}

    @property
    def ended(self) -> bool:
        """True when the machine is terminal and nothing is outstanding."""
        return not self.outstanding and self.machine.is_terminal(self.state)

    def request(self, effect_id: str) -> Any:
        """Return the request of an outstanding effect: all that its performer is given."""
        if effect_id in self.fixed_requests:
            return self.fixed_requests[effect_id]
        effect = self.outstanding[effect_id]
        made_by = self.machine.requests.get(type(effect))
        return made_by.make(self, effect_id, effect) if made_by else effect

    def take(self, event: Event, *, at: float, actor: str, key: str = "") -> Entry | None:
        """Step with one event and make its entry; None where nothing happened.

        An outcome of an effect that is not outstanding is noted, not stepped.

        Raises:
            IllegalTransition: the table has no row for it; nothing has changed.
        """
        if isinstance(event, EffectResult) and event.effect_id not in self.outstanding:
            return self.note(event, at=at, actor=actor, key=key, why=f"{event.effect_id} is not outstanding")
        return self._step(event, self.context(event, at=at, actor=actor), key)

    def context(self, event: Event, *, at: float, actor: str) -> StepContext:
        """Return the turn that takes an event as the next entry."""
        return StepContext(
            run_id=self.id,
            seq=self.seq + 1,
            at=at,
            actor=actor,
            state=self.state,
            rules=self.machine.rules if event.adopts_rules or not self.seq else self.rules,
            settles=event.effect_id if isinstance(event, EffectResult) else "",
            outstanding=self.outstanding,
            abandoned=self.abandoned,
        )

    def note(self, event: Event, *, at: float, actor: str, key: str, why: str) -> Entry:
        """Make an entry for an event that is recorded and not stepped."""
        rules = self._adopted(event)
        entry = Entry(run_id=self.id, seq=self.seq + 1, at=at, actor=actor, event=event, state=self.state, key=key, note=why, rules=rules)
        self._advance(entry)
        return entry

    def replay(self, entries: Iterable[Entry]) -> None:
        """Take the run forward over entries of its journal.

        Requests are made only for effects that none of these entries settles: a long journal may have thousands of questions.

        Raises:
            JournalMismatch: a gap, or an entry that today's table does not give.
            RunNewer: an entry was made by newer rules than the machine's.
        """
        entries = list(entries)
        settled = {entry.event.effect_id for entry in entries if isinstance(entry.event, EffectResult) and not entry.note}
        for entry in entries:
            if entry.seq != self.seq + 1 or entry.run_id != self.id:
                raise JournalMismatch(
                    self.id, entry.seq, f"expected entry {self.seq + 1} of run {self.id}, found {entry.seq} of {entry.run_id}"
                )
            if bool(entry.rules) != bool(self._adopted(entry.event)):
                raise JournalMismatch(
                    self.id, entry.seq, "the version of the rules belongs in the first entry and in every claim, and in no other entry"
                )
            if entry.rules > self.machine.rules:
                raise RunNewer(self.id, version_of(self.machine, entry.rules), version_of(self.machine))
            if entry.note:
                if entry.state != self.state:
                    raise JournalMismatch(
                        self.id, entry.seq, f"a note leaves the state as it is, {self.state}; the journal says {entry.state}"
                    )
                self._advance(entry)
                continue
            if isinstance(entry.event, EffectResult) and entry.event.effect_id not in self.outstanding:
                raise JournalMismatch(self.id, entry.seq, f"it takes an outcome of {entry.event.effect_id}, which is not outstanding")
            context = self.context(entry.event, at=entry.at, actor=entry.actor)
            context.side_effects, context.replayed, context.rules = dict(entry.side_effects), True, entry.rules or self.rules
            try:
                replayed = self._step(entry.event, context, entry.key, settled, entry.effects)
            except Exception as error:  # boundary: today's move may fail in any way over an old entry, or one that was changed
                raise JournalMismatch(self.id, entry.seq, f"it cannot be replayed ({error_text(error)})") from error
            if replayed is None or replayed.state != entry.state:
                told = replayed.state if replayed else "nothing"
                raise JournalMismatch(self.id, entry.seq, f"it leads to {told} today, the journal says {entry.state}")
            if replayed.effects != entry.effects:
                raise JournalMismatch(
                    self.id, entry.seq, f"it asks for other effects today than the journal says{_differs(replayed, entry)}"
                )

    def _step(
        self, event: Event, context: StepContext, key: str, settled: Container[str] = (), journaled: tuple[Effect, ...] = ()
    ) -> Entry | None:
        try:
            target = self.machine.step(self.state, self.memory, event, context)
        except IllegalTransition as error:
            raise IllegalTransition(error.machine, error.state, error.event, error.accepted, tuple(self.history)) from None
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
        )
        self._advance(entry, settled)
        return entry

    def _adopted(self, event: Event) -> int:
        """Return the version of the rules that holds from the entry of an event on; 0 where it stays as it is."""
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
        if not entry.effects:
            return
        issued = dict(zip(entry.effect_ids(), entry.effects, strict=True))
        self.outstanding.update(issued)
        for effect_id, effect in issued.items():
            if type(effect) in self._fixed and effect_id not in settled:
                self.fixed_requests[effect_id] = self.machine.requests[type(effect)].make(self, effect_id, effect)


def _read_back(machine: Machine[Any], effect: Effect) -> Effect:
    """Return an effect as its journal gives it back.

    Raises:
        TypeError: the machine does not declare it, or a journal cannot hold it.
    """
    name = type(effect).__name__
    if type(effect) not in machine.effects:
        raise TypeError(f"{machine.name} asks for {name}, which it does not declare: it could not be replayed")
    try:
        return read_back(effect)
    except InvalidInput as error:
        raise TypeError(f"{machine.name} asks for {name}: {error}") from None


def _differs(today: Entry, entry: Entry) -> str:
    """Return where the effects of an entry begin to differ: by their kinds, or by a field; values are not shown."""
    for now, then in zip(today.effects, entry.effects, strict=False):
        if type(now) is not type(then):
            return f": {kind_of(now)}, the journal {kind_of(then)}"
        if fields := [field.encode_name for field in msgspec.structs.fields(now) if getattr(now, field.name) != getattr(then, field.name)]:
            return f": {kind_of(now)} with another {', '.join(fields)}"
    return f": {len(today.effects)}, the journal {len(entry.effects)}"
