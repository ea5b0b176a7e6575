"""A state machine as a table: for each state, the events it accepts and the move of each.

A row names an event, the move that handles it and the target states that the move may choose; any
other target raises. `Machine.step` takes an event and returns the next state; the effects to
perform are collected in the :class:`StepContext`, from which time, ids and the actor come too. A
step is deterministic: no clock, no chance, no I/O. Effects are performed elsewhere (``runtime``).

Two ideas are borrowed: from h11, that only the table moves the state; from Dask's scheduler
(``distributed``), events in and instructions out.
"""

from __future__ import annotations

import enum
import functools
import inspect
import itertools
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, Never, TypeVar

import msgspec

from asterism.engine.kernel.guards import Guards
from asterism.engine.kernel.permissions import LOWEST, Permissions
from asterism.engine.kernel.phrase import Text
from asterism.engine.kernel.profile import AgentProfile
from asterism.errors import VERSION_STEP, ForbiddenTarget, IllegalTransition, InvalidInput

D = TypeVar("D", bound=msgspec.Struct)
M = TypeVar("M")
T = TypeVar("T")


class StartRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to start a run of a machine.

    Attributes:
        definition: definition prepared by the machine's own package, as JSON; only that machine
            reads it (``defined_as``).
        request: the task, in words.
        inputs: JSON values by name.
        budget_s: seconds the run may take; None for the limit of its definition.
        fleet_file: path of the fleet file, for a machine that runs tasks on devices; empty without
            one.
        guards: the guards of the run that starts it, as they stand.
    """

    definition: dict[str, Any]
    request: str = ""
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    budget_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    fleet_file: str = ""
    guards: Guards = Guards()

    def defined_as(self, kind: type[D]) -> D:
        """Return the definition as the type of its machine.

        Raises:
            InvalidInput: the definition does not have this type.
        """
        try:
            return msgspec.convert(self.definition, kind)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"a run cannot be started: its definition is not a valid {kind.__name__}: {error}") from None

    def limit_s(self, own_s: float, *, default_s: float | None = None) -> float:
        """Return the seconds the run may take: its own limit, at most the budget.

        Args:
            own_s: the limit in the definition.
            default_s: the limit of a definition that names none; it does not shorten a budget.
        """
        if self.budget_s is None:
            return own_s
        return self.budget_s if own_s == default_s else min(own_s, self.budget_s)


class RecoveryPolicy(enum.Enum):
    """The recovery of an effect that had no result when the process crashed."""

    RETRY_SAME_KEY = "same_key"  # idempotent: perform it again under the same id
    REATTACH = "reattach"  # perform it again; its request also says what has happened since
    DO_NOT_RETRY = "never"  # its result is "interrupted"; a retry policy or a person may order another attempt, with another id


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs of the process that drives it.

    Attributes:
        fleet_file: file from which it opens its devices; empty for none.
        devices: profiles of the devices on which it performs tasks; None for a run that performs none itself.
        planner: settings of its planner; empty for the offline planner.
    """

    fleet_file: str = ""
    devices: tuple[AgentProfile, ...] | None = None
    planner: dict[str, Any] = msgspec.field(default_factory=dict)


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Something that happened, as plain data.

    Every kind has a ``tag`` in snake_case, its name in journals and inboxes; the tag stays when the
    class is renamed. A field that is named otherwise in Python than in journals has a
    ``msgspec.field(name=…)``. Events have no reference cycles, so the garbage collector skips them
    (``gc=False``).
    """

    from_outside: ClassVar[bool] = False
    """True for commands and answers. An inbox accepts no other event, so the only effect result in it
    is ``Answered``."""
    adopts_rules: ClassVar[bool] = False
    """True for the acquisition of ownership and an import: from its entry on, the rules of who writes it apply."""
    is_progress: ClassVar[bool] = True
    """False for an event that each new owner of a run may cause, whether the run advances or not."""
    submits: ClassVar[bool] = False
    """True for an event whose sender submits the run, as that of the first entry does."""

    def needs(self) -> Needs:
        """Return what a run that begins with this event needs of the process that drives it; nothing by default."""
        return Needs()


class EffectResult(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The result of an effect. The first one is accepted; a late or second one is only noted."""

    effect_id: str


class Effect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Something to be performed outside the machine, as plain data with a ``tag`` like events."""

    performed_outside: ClassVar[bool] = True
    """False if a person answers it instead of a performer: its result comes through the inbox."""
    logged_as: ClassVar[Callable[[Any], tuple[str, int]] | None] = None
    """Returns for its request the name and the number under which what its performer prints is logged; None for no log."""

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        """Return the policy for this effect after a crash."""
        return RecoveryPolicy.RETRY_SAME_KEY

    @property
    def actor(self) -> str:
        """Return the actor of its result."""
        return "system"

    @property
    def cancels(self) -> str:
        """Return the id of the effect that this one cancels; empty for all other kinds."""
        return ""

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return the result to record when the performer gave none; the work may have happened.

        The performer raised an error, or the effect was cancelled, or the process ended: ``why`` says
        which, and ``str(why)`` in words.
        """
        raise NotImplementedError(type(self).__name__)


def kind_of(it: type[Event | Effect] | Event | Effect) -> str:
    """Return the tag of an event or effect, or of its class."""
    return str(it.__struct_config__.tag)


def make_effect_id(run_id: str, seq: int, index: int) -> str:
    """Return the id of an effect: its place in the journal, and its idempotency key outside."""
    return f"{run_id}:{seq}.{index}"


def run_id_of(effect_id: str) -> str:
    """Return the id of the run that an effect belongs to."""
    return effect_id.rpartition(":")[0]


class StepContext(msgspec.Struct):
    """The input of a move, next to memory and event, and the collector of its effects.

    Attributes:
        run_id, seq, at, actor: those of the entry that this step makes; ``at`` in seconds since the
            epoch.
        permissions: those of the sender of the event; the lowest if no person sent it.
        submitters: actors of the first entry and of those that submit a copy of the run.
        rules: version of the rules for this entry: that of the program that submitted the run or
            last acquired ownership. A replayed step has the version of its entry, so a corrected
            move asks ``context.rules >= N``.
        settles: id of the effect that the event is the result of; empty for other events.
        outstanding: effects without a result, by id, oldest first, including the one that
            ``settles`` names; read only.
        abandoned: ids of outstanding effects whose result only common rows will handle.
        side_effects: recorded results of code that may change between versions (a condition, a
            ranking). A live step computes and records them; a replayed step reads them.
        replayed: True if the entry is read from the journal, False if it is new.
        touched: ``(kind, id)`` of the parts of the memory that the move may have changed, for
            views; not journaled.
    """

    run_id: str
    seq: int
    at: float
    actor: str
    state: enum.StrEnum
    rules: int = 1
    permissions: Permissions = LOWEST
    submitters: tuple[str, ...] = ()
    settles: str = ""
    outstanding: Mapping[str, Effect] = {}
    abandoned: set[str] = set()
    side_effects: dict[str, Any] = {}
    replayed: bool = False
    effects: list[Effect] = []
    touched: dict[tuple[str, str], None] = {}

    def schedule(self, effect: Effect) -> str:
        """Schedule an effect and return its id, which is also its idempotency key."""
        self.effects.append(effect)
        return make_effect_id(self.run_id, self.seq, len(self.effects) - 1)

    def abandon(self, effect_id: str) -> None:
        """Ignore the result of an outstanding effect: it is journaled and counted, and only common rows handle it."""
        self.abandoned.add(effect_id)

    def touch(self, kind: str, *ids: str) -> None:
        """Mark parts of the memory as possibly changed, so that views read them again."""
        self.touched.update(dict.fromkeys(zip(itertools.repeat(kind), ids)))

    def side_effect(self, name: str, compute: Callable[[], T]) -> T:
        """Return the recorded result of that name; a live step computes and records it first."""
        if not self.replayed and name not in self.side_effects:
            self.side_effects[name] = compute()
        return typing.cast("T", self.side_effects[name])


Move = Callable[[Any, Never, StepContext], enum.StrEnum | None]
"""``(memory, event, context) -> next state``; for ``None`` nothing happened and no entry is made.

The event is typed ``Never`` so that a move for any one event fits. `Machine` checks that each key
of a table matches the annotation of its move.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table.

    Attributes:
        move: handles the event: validates first, then changes the memory.
        to: the target states it may choose: the edges of the state diagram.
        internal: True if the move may also stay in the current state, which is no edge. A row
            without targets is internal.
    """

    move: Move
    to: frozenset[enum.StrEnum] = frozenset()
    internal: bool = False


def row(move: Move, *to: enum.StrEnum, internal: bool = False) -> Row:
    """Return a row with these targets; without any it is internal."""
    return Row(move, frozenset(to), internal or not to)


Table = Mapping[enum.StrEnum, Mapping[type[Event], Row]]


@dataclass(frozen=True, slots=True)
class RequestFactory:
    """The function that makes the request of a kind of effect: everything its performer receives.

    Attributes:
        make: ``(run, effect_id, effect) -> request``, pure; the request does not change when the
            run continues, unless the effect is reattached (``RecoveryPolicy.REATTACH``).
        fixed: type of a request that is made once, when the effect is issued, and stored in
            snapshots, because its facts may change meanwhile. None if the request is made again
            each time performing begins.
    """

    make: Callable[[Any, str, Any], Any]
    fixed: type[msgspec.Struct] | None = None


class Machine(Generic[M]):
    """A named table over one memory type.

    Args:
        name, states, initial, table, memory: as in ``engine.control.define_machine``.
        effects: the kinds of effect that its moves may schedule.
        ends: terminal states that nevertheless have rows to other states.
        common: rows of every state, for events that the state's own rows do not name.
        while_live: the same, for states that are not terminal.
        settled: called with memory and each effect result before its move; it must not fail.
        moved: called with memory and context after each move, and the state if the run has ended; it must not fail.
        advanced: called after each entry that moved the machine, with the memory, the outstanding effects and the time; it must
            not fail.
        check_end: called with the memory when a live move ends the run; returns the problem, or "".
            A replay does not ask: a run that has ended stays readable.
        requests: for kinds of effect whose request is more than the effect itself.
        starts: returns the event that begins a child run, or raises InvalidInput; None if the
            machine cannot be a child.
        rules: version of its moves, from 1 to 999, raised with each correction of a move.

    Attributes:
        table: all rows of each state, including the common ones.

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
        moved: Callable[[M, StepContext, enum.StrEnum | None], None] = lambda memory, context, end: None,
        advanced: Callable[[M, Mapping[str, Effect], float], None] = lambda memory, outstanding, at: None,
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
        self.moved = moved
        self.advanced = advanced
        self.check_end = check_end
        self.starts = starts
        self._terminal = frozenset(state for state, rows in table.items() if not _targets(rows) - {state}).union(ends)
        self._common = dict(common or {})
        live = {**self._common, **(while_live or {})}
        self.table: Table = {  # a state's own rows come first, and count
            state: {**rows, **(self._common if state in self._terminal else live), **rows} for state, rows in table.items()
        }
        self.events: tuple[type[Event], ...] = tuple(dict.fromkeys(event for rows in self.table.values() for event in rows))
        if found := problems(self):
            raise ValueError(f"machine {name!r} is not sound: {'; '.join(found)}")

    def step(self, state: enum.StrEnum, memory: M, event: Event, context: StepContext) -> enum.StrEnum | None:
        """Handle one event.

        An effect result settles its effect even if no row handles it. For the result of an
        abandoned effect only the common rows are looked up.

        The memory is changed in place, after validation; the context collects the effects.

        Returns:
            The next state, or None if nothing happened.

        Raises:
            IllegalTransition: the state has no row for the event; nothing has changed.
            ForbiddenTarget: the row forbids the target of the move.
            TypeError: no state has a row for this kind of effect result; or the run would end, and
                its memory has no valid end.
        """
        found = self.table[state].get(type(event))
        if isinstance(event, EffectResult):
            self.settled(memory, event)
            if event.effect_id in context.abandoned:
                found = self._common.get(type(event))
            if found is None:
                if type(event) not in self.events:
                    raise TypeError(f"{self.name} has no row for {type(event).__name__} in any state: the run could not be replayed")
                return state
        if found is None:
            raise IllegalTransition(self.name, state, kind_of(event), [kind_of(kind) for kind in self.table[state]])
        target = found.move(memory, event, context)  # type: ignore[arg-type]  # problems() has checked its annotation
        if target is None:
            return None
        self.moved(memory, context, target if target in self._terminal else None)
        if found.internal and target == state:
            return target
        if target not in found.to:
            raise ForbiddenTarget(self.name, state, f"{kind_of(event)} to {target}", sorted(found.to))
        if target in self._terminal and target != state and not context.replayed and (problem := self.check_end(memory)):
            raise TypeError(f"{self.name} ends in {target}: {problem}")
        return target

    def matrix(self) -> dict[enum.StrEnum, frozenset[enum.StrEnum]]:
        """Return each state with the states that its rows may lead to."""
        return {state: _targets(rows) for state, rows in self.table.items()}

    def is_terminal(self, state: str) -> bool:
        """Return True for a state in which a run has ended: a dead end, or one of ``ends``."""
        return state in self._terminal


def _targets(rows: Mapping[type[Event], Row]) -> frozenset[enum.StrEnum]:
    return frozenset().union(*(found.to for found in rows.values()))


def problems(machine: Machine[Any]) -> list[str]:
    """Return the defects of a table that are visible before it runs, in words."""
    found = [f"no row for {state}" for state in machine.states if state not in machine.table]
    found += [f"{state} is not one of its states" for state in (machine.initial, *machine.table) if not isinstance(state, machine.states)]
    for kinds in (machine.events, machine.effects):
        found += [_no_tag(kind) for kind in kinds if not _has_tag(kind)]
        found += [
            f"{kind.__name__} sets tag_field or array_like; remove that" for kind in kinds if _has_tag(kind) and not _is_an_object(kind)
        ]
        tags = [kind_of(kind) for kind in kinds if _has_tag(kind)]
        found += [f"two kinds have the tag {tag!r}; a journal could not distinguish them" for tag in sorted({*tags}) if tags.count(tag) > 1]
    if type(machine.rules) is not int or not 1 <= machine.rules < VERSION_STEP:
        found.append(f"rules: {machine.rules!r} is not a version from 1 to {VERSION_STEP - 1}")
    found += [f"requests: {kind.__name__} is not one of its effects" for kind in machine.requests if kind not in machine.effects]
    edges = {state: {target for entry in rows.values() for target in entry.to} for state, rows in machine.table.items()}
    reached, frontier = {machine.initial}, [machine.initial]
    while frontier:
        for target in edges.get(frontier.pop(), set()) - reached:
            reached.add(target)
            frontier.append(target)
    found += [f"{state} cannot be reached" for state in machine.states if state not in reached]
    for state, rows in machine.table.items():
        for event, entry in rows.items():
            accepted, name = _event_types(entry.move), getattr(entry.move, "__name__", repr(entry.move))
            if not accepted:
                found.append(f"{state}: {name} does not declare its event; annotate its second parameter with {event.__name__}")
            elif not issubclass(event, accepted):
                found.append(f"{state}: the row for {event.__name__} has a move for another event, {name}")
            found += [f"{state}: {target} is not one of its states" for target in entry.to if not isinstance(target, machine.states)]
    return found


_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def _has_tag(kind: type[Event | Effect]) -> bool:
    return _SNAKE_CASE.fullmatch(kind_of(kind)) is not None and kind_of(kind) != kind.__name__


def _is_an_object(kind: type[Event | Effect]) -> bool:
    """Return True if a journal can read this kind: a JSON object with its tag under ``type``."""
    return kind.__struct_config__.tag_field == "type" and not kind.__struct_config__.array_like


def _no_tag(kind: type[Event | Effect]) -> str:
    tag = kind.__struct_config__.tag
    has = "no tag" if tag is None else f"the tag {tag!r}"
    return f"{kind.__name__} has {has}; its name in journals is a tag in snake_case that is not the name of the class"


@functools.cache
def _event_types(move: Move) -> tuple[type[Event], ...]:
    """Return the event types that annotate a move's second parameter; none without annotation."""
    second = list(inspect.signature(move).parameters)[1:2]
    annotated = typing.get_type_hints(move).get(second[0]) if second else None
    return tuple(typing.get_args(annotated)) or ((annotated,) if annotated else ())


def mermaid(machine: Machine[Any]) -> str:
    """Return the machine as ``stateDiagram-v2`` text, without internal rows, which are no edges."""
    lines = ["stateDiagram-v2", f"    [*] --> {machine.initial}"]
    for state, rows in machine.table.items():
        labels: dict[str, list[str]] = {}
        for event, entry in rows.items():
            for target in sorted(entry.to):
                labels.setdefault(target, []).append(kind_of(event))
        lines += [f"    {state} --> {target}: {', '.join(labels[target])}" for target in machine.states if target in labels]
        if machine.is_terminal(state):
            lines.append(f"    {state} --> [*]")
    return "\n".join(lines) + "\n"
