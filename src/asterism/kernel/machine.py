"""What a machine is: a table, and nothing else that moves its state.

A row of the table names the event it is for, the move that carries it out and the targets that move
may choose; any other target raises. Events come in, a state and effects come out; ``step`` is
deterministic: no clock, no chance, no I/O. Time, ids and the actor arrive in the :class:`StepContext`.

The idea of a machine as one table that alone moves the state is h11's; events in and instructions
out is distributed's worker state machine. Not here: anything that performs an effect.
"""

from __future__ import annotations

import enum
import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Never, TypeVar

import msgspec

from asterism.errors import VERSION_STEP, IllegalTransition
from asterism.kernel.start import StartRequest

M = TypeVar("M")
T = TypeVar("T")


class RecoveryPolicy(enum.Enum):
    """What a crash means for an effect that has no outcome yet."""

    RETRY_SAME_KEY = "same_key"  # idempotent: perform it again under the same id
    REATTACH = "reattach"  # ask, by the id, what became of it
    DO_NOT_RETRY = "never"  # it is Interrupted: a retry policy or a person decides


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Something that happened. Plain data, which has no cycles: the garbage collector need not look at it (``gc=False``).

    Every kind has a ``tag`` in snake_case: its name in journals and inboxes, which stays when the class gets another one. A field
    whose name there is not Python's has a ``msgspec.field(name=…)``.
    """

    from_outside: ClassVar[bool] = False
    """True for commands and answers: what the inbox may bring. Nobody outside tells a run how its effects came out."""
    adopts_rules: ClassVar[bool] = False
    """True for the event by which an owner claims a run: from this entry on the run moves by the rules of the owner's program."""


class EffectResult(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of an effect; accepted once, noted when it comes late or again."""

    effect_id: str


class Effect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Something to be done outside. Plain data; its id comes from its place in the journal. Named as an :class:`Event` is."""

    performed_outside: ClassVar[bool] = True
    """False where nobody performs it: its outcome comes through the inbox (a question to a person)."""

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        """What a crash means for it."""
        return RecoveryPolicy.RETRY_SAME_KEY

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return "system"

    @property
    def cancels(self) -> str:
        """Id of the effect that this one calls off; empty for all others."""
        return ""

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """The outcome when it is called off, lost in a crash and not to be redone, or when its performer has raised."""
        raise NotImplementedError(type(self).__name__)


def kind_of(it: type[Event | Effect] | Event | Effect) -> str:
    """Return the tag of an event or effect, or of their class: its name in journals and inboxes, and for people."""
    return str(it.__struct_config__.tag)


def make_effect_id(run_id: str, seq: int, index: int) -> str:
    """The id of an effect: also the idempotency key handed to devices and models."""
    return f"{run_id}:{seq}.{index}"


def run_id_of(effect_id: str) -> str:
    """The run that an effect of this id is of."""
    return effect_id.rpartition(":")[0]


class StepContext(msgspec.Struct):
    """What a move knows besides memory and event, and how it asks for effects.

    Attributes:
        run_id, seq, at, actor: those of the entry being made.
        state: the state that the machine is in.
        rules: version of the rules that this entry is made by: those of the program that submitted the run, or that claimed it
            last. A replayed turn has the version that its entry was written under, so a corrected move asks ``context.rules >= N``.
        settles: id of the effect whose outcome the event is; empty for any other event.
        outstanding: effects without an outcome, by id, oldest first, the one that is being settled included; read only.
        abandoned: ids of effects whose outcome will have no consequence.
        side_effects: verdicts of code that may change between versions (a condition, a ranking). A live turn
            computes and records them; a replayed turn is given them.
        replayed: it is made from the journal, and not for the first time.
        effects: asked for so far.
        touched: ``(kind, id)`` of the parts of the memory that the move may have changed, for views. No journal has them.
    """

    run_id: str
    seq: int
    at: float
    actor: str
    state: enum.StrEnum
    rules: int = 1
    settles: str = ""
    outstanding: Mapping[str, Effect] = {}
    abandoned: set[str] = set()
    side_effects: dict[str, Any] = {}
    replayed: bool = False
    effects: list[Effect] = []
    touched: dict[tuple[str, str], None] = {}

    def schedule(self, effect: Effect) -> str:
        """Ask for an effect; returns its id, which is also its idempotency key."""
        self.effects.append(effect)
        return make_effect_id(self.run_id, self.seq, len(self.effects) - 1)

    def abandon(self, effect_id: str) -> None:
        """Drop the outcome of an outstanding effect: when it comes, it is journaled and no move sees it."""
        self.abandoned.add(effect_id)

    def touch(self, kind: str, *ids: str) -> None:
        """Note that parts of the memory may have changed, so that a view shows them as they are now."""
        self.touched.update(dict.fromkeys([(kind, part) for part in ids]))

    def side_effect(self, name: str, compute: Callable[[], T]) -> T:
        """The recorded verdict of that name; computed and recorded when this turn is live."""
        if not self.replayed and name not in self.side_effects:
            self.side_effects[name] = compute()
        return typing.cast("T", self.side_effects[name])


Move = Callable[[Any, Never, StepContext], enum.StrEnum | None]
"""``(memory, event, turn) -> next state``; ``None`` says that nothing happened, and leaves no entry.

The event is typed ``Never`` so that a move for any one event fits; that each key of a table matches
the annotation of its move is checked when the machine is defined.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table.

    Attributes:
        move: carries the event out; validates first, changes memory after.
        to: the states it may choose. These are the edges of the matrix.
        internal: it may also leave the state as it is without that being an edge. A row without targets is internal.
    """

    move: Move
    to: frozenset[enum.StrEnum] = frozenset()
    internal: bool = False


def row(move: Move, *to: enum.StrEnum, internal: bool = False) -> Row:
    """A row with these targets; without any it is internal."""
    return Row(move, frozenset(to), internal or not to)


Table = Mapping[enum.StrEnum, Mapping[type[Event], Row]]


@dataclass(frozen=True, slots=True)
class RequestFactory:
    """How the request of a kind of effect is made: all that its performer is given.

    Attributes:
        make: ``(run, effect_id, effect) -> request``, pure; nothing in the request changes when the run goes on.
        fixed: type of a request that is made once, when the effect is issued, because the facts it is made from may change
            while the effect is outstanding. None where it is made whenever performing begins: from facts that cannot change
            until then, or (``RecoveryPolicy.REATTACH``) that say how far the effect has come.
    """

    make: Callable[[Any, str, Any], Any]
    fixed: type[msgspec.Struct] | None = None


@dataclass(frozen=True, slots=True)
class StateFacts:
    """What a state says of itself: the same three answers for every machine."""

    name: str
    is_round_end: bool
    is_subtask_end: bool
    next_agent: str


class Machine(Generic[M]):
    """A named table over one memory type.

    Args:
        name: as users know it.
        states: the enumeration of its states.
        initial: where a run begins.
        table: state -> event type -> row.
        effects: the kinds of effect its moves may ask for.
        memory: makes an empty memory.
        ends: states in which a run has ended although a row leads out of them (a flow's ERROR).
        common: rows that every state has for events that its own rows do not name.
        while_live: the same, except for states in which a run has ended.
        settled: called with the memory and each outcome before its move; counts what the effect has used. It must not fail.
        check_end: called with the memory when a live move leads to a state in which a run has ended; returns what is wrong with it,
            or "". A replay does not ask: a run that has ended stays readable.
        requests: for kinds of effect whose performer needs more than the effect; the request of any other is the effect.
        starts: makes the event that begins a run which another run has started, or raises InvalidInput; None where it cannot be a child.
        rules: version of its moves, from 1 to 999; raised with every correction of a move (see ``StepContext.rules``).

    Attributes:
        table: all rows of each state, the common ones included.

    Raises:
        ValueError: the table is not sound (see :func:`problems`).
    """

    def __init__(
        self,
        name: str,
        *,
        states: type[enum.StrEnum],
        initial: enum.StrEnum,
        table: Table,
        effects: Iterable[type[Effect]],
        memory: Callable[[], M],
        ends: Iterable[enum.StrEnum] = (),
        common: Mapping[type[Event], Row] | None = None,
        while_live: Mapping[type[Event], Row] | None = None,
        settled: Callable[[M, EffectResult], None] = lambda memory, event: None,
        check_end: Callable[[M], str] = lambda memory: "",
        requests: Mapping[type[Effect], RequestFactory] = {},
        starts: Callable[[StartRequest], Event] | None = None,
        rules: int = 1,
    ) -> None:
        self.name = name
        self.states = states
        self.initial = initial
        self.effects = tuple(effects)
        self.memory = memory
        self.requests = requests
        self.rules = rules
        self.settled = settled
        self.check_end = check_end
        self.starts = starts
        self._terminal = frozenset(state for state, rows in table.items() if not _targets(rows) - {state}).union(ends)
        self._common = dict(common or {})
        live = {**self._common, **(while_live or {})}
        self.table: Table = {state: _completed(rows, self._common if state in self._terminal else live) for state, rows in table.items()}
        self.events: tuple[type[Event], ...] = tuple(dict.fromkeys(event for rows in self.table.values() for event in rows))
        if found := problems(self):
            raise ValueError(f"machine {name!r} is not sound: {'; '.join(found)}")

    def step(self, state: enum.StrEnum, memory: M, event: Event, context: StepContext) -> enum.StrEnum | None:
        """Carry one event out.

        An outcome settles its effect whether or not there is a row for it. For one that was abandoned only the common rows count.

        Args:
            state: where the machine is.
            memory: changed in place, after everything was validated.
            event: what happened.
            context: place, time and actor; collects the effects.

        Returns:
            The next state, or None where nothing happened.

        Raises:
            IllegalTransition: no row for the event in this state, or a target that the row forbids.
            TypeError: no state has a row for this kind of outcome; or the run would end, and its memory does not say how.
        """
        found = self.table[state].get(type(event))
        if isinstance(event, EffectResult):
            self.settled(memory, event)
            if event.effect_id in context.abandoned:
                found = self._common.get(type(event))
            if found is None:
                if type(event) not in self.events:
                    raise TypeError(f"{self.name} has no row for {type(event).__name__} in any state: it could not be replayed")
                return state
        if found is None:
            raise IllegalTransition(self.name, state, kind_of(event), [kind_of(kind) for kind in self.table[state]])
        target = found.move(memory, event, context)  # type: ignore[arg-type]  # problems() has seen that its move takes this event
        if target is None or (found.internal and target == state):
            return target
        if target not in found.to:
            raise IllegalTransition(self.name, state, f"{kind_of(event)} to {target}", sorted(found.to))
        if target in self._terminal and target != state and not context.replayed and (problem := self.check_end(memory)):
            raise TypeError(f"{self.name} ends in {target}: {problem}")
        return target

    def matrix(self) -> dict[enum.StrEnum, frozenset[enum.StrEnum]]:
        """State -> the states its rows may lead to; what the diagrams and the tests are drawn from."""
        return {state: _targets(rows) for state, rows in self.table.items()}

    def is_terminal(self, state: str) -> bool:
        """True where a run has ended: no row leads to another state, or the machine says so."""
        return state in self._terminal

    def facts(self, state: str) -> StateFacts:
        """What the state says of itself."""
        ended = self.is_terminal(state)
        return StateFacts(name=state, is_round_end=ended, is_subtask_end=ended, next_agent=self.name)


def _completed(own: Mapping[type[Event], Row], common: Mapping[type[Event], Row]) -> dict[type[Event], Row]:
    return {**own, **{event: found for event, found in common.items() if event not in own}}


def _targets(rows: Mapping[type[Event], Row]) -> frozenset[enum.StrEnum]:
    return frozenset().union(*(found.to for found in rows.values()))


def problems(machine: Machine[Any]) -> list[str]:
    """What is unsound in a table, as far as it can be seen before it runs."""
    found = [f"no row for {state}" for state in machine.states if state not in machine.table]
    found += [f"{state} is not a state of it" for state in (machine.initial, *machine.table) if not isinstance(state, machine.states)]
    for kinds in (machine.events, machine.effects):
        found += [_no_tag(kind) for kind in kinds if not _has_tag(kind)]
        found += [
            f"{kind.__name__} has a tag_field, or is array_like; leave that out"
            for kind in kinds
            if _has_tag(kind) and not _is_an_object(kind)
        ]
        tags = [kind_of(kind) for kind in kinds if _has_tag(kind)]
        found += [f"two kinds have the tag {tag!r}; a journal could not tell them apart" for tag in sorted({*tags}) if tags.count(tag) > 1]
    if type(machine.rules) is not int or not 1 <= machine.rules < VERSION_STEP:
        found.append(f"rules: {machine.rules!r} is not a version from 1 to {VERSION_STEP - 1}")
    found += [f"requests: {kind.__name__} is no effect of it" for kind in machine.requests if kind not in machine.effects]
    edges = {state: {target for entry in rows.values() for target in entry.to} for state, rows in machine.table.items()}
    reached, frontier = {machine.initial}, [machine.initial]
    while frontier:
        for target in edges.get(frontier.pop(), set()) - reached:
            reached.add(target)
            frontier.append(target)
    found += [f"{state} cannot be reached" for state in machine.states if state not in reached]
    for state, rows in machine.table.items():
        for event, entry in rows.items():
            taken, name = _event_types(entry.move), getattr(entry.move, "__name__", repr(entry.move))
            if not taken:
                found.append(f"{state}: {name} does not say which event it takes; annotate its second parameter with {event.__name__}")
            elif not issubclass(event, taken):
                found.append(f"{state}: the row for {event.__name__} has a move for another event, {name}")
            found += [f"{state}: {target} is not a state of it" for target in entry.to if not isinstance(target, machine.states)]
    return found


_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def _has_tag(kind: type[Event | Effect]) -> bool:
    return _SNAKE_CASE.fullmatch(kind_of(kind)) is not None and kind_of(kind) != kind.__name__


def _is_an_object(kind: type[Event | Effect]) -> bool:
    """True where JSON of a kind is an object that has its tag under ``type``, as a journal is read."""
    return kind.__struct_config__.tag_field == "type" and not kind.__struct_config__.array_like


def _no_tag(kind: type[Event | Effect]) -> str:
    tag = kind.__struct_config__.tag
    has = "no tag" if tag is None else f"the tag {tag!r}"
    return f"{kind.__name__} has {has}; its name in journals is a tag in snake_case that is not the name of the class"


@functools.cache
def _event_types(move: Move) -> tuple[type[Event], ...]:
    """The event types that a move's annotation takes; none where it says nothing."""
    taken = list(inspect.signature(move).parameters)[1:2]
    annotated = typing.get_type_hints(move).get(taken[0]) if taken else None
    return tuple(typing.get_args(annotated)) or ((annotated,) if annotated else ())
