"""The rows that every machine has, written once: claims, pauses, cancels, forks, children that wait, outcomes that come too late.

A machine says only what is its own about them. Its table says where it may lead, and nothing of these.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from asterism.kernel.machine import Effect, Event, Machine, Outcome, RequestOf, Row, Table, Turn, row
from asterism.kernel.start import StartRequest
from asterism.machines.children import CHILD_REQUESTS, ChildRested, Relay, Relayed, StartChild, note_rest, relay, tell_children
from asterism.machines.control import (
    Answered,
    Ask,
    Broke,
    Cancel,
    Claimed,
    Drained,
    Forked,
    Governed,
    Pause,
    Unpause,
    Withdraw,
    Withdrawn,
    not_asked,
)

DEFECT = "defect"
"""Code of a run that ended because a move failed over an outcome."""
G = TypeVar("G", bound=Governed)
Hook = Callable[[Any, Any, Turn], None]
"""What a machine does about an event besides what every machine does: ``(memory, event, turn)``."""


def _nothing(memory: Governed, event: Event, turn: Turn) -> None:
    """Do no more than every machine does."""


def _pause(memory: Governed, event: Pause, turn: Turn) -> None:
    memory.paused = True


def _unpause(memory: Governed, event: Unpause, turn: Turn) -> None:
    memory.paused = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """What a machine says of the events that every machine takes.

    Attributes:
        cancel: the row for ``Cancel``, in every state in which the run has not ended (``cancels_to`` makes one).
        defect: the row for ``Broke``, there (``fails_to`` makes one).
        claimed: called when another owner has taken the run.
        forked: called when the run was copied from another one, after the children that it has not were called off.
        paused: called before its children are told of a pause; it may refuse.
        unpaused: called before its children are told that it goes on; it may refuse.
    """

    cancel: Row
    defect: Row
    claimed: Hook = _nothing
    forked: Hook = _nothing
    paused: Hook = _pause
    unpaused: Hook = _unpause


def governed(
    name: str,
    *,
    states: type[enum.StrEnum],
    initial: enum.StrEnum,
    table: Table,
    effects: Iterable[type[Effect]],
    memory: Callable[[], G],
    control: Control,
    ends: Iterable[enum.StrEnum] = (),
    common: Mapping[type[Event], Row] | None = None,
    while_live: Mapping[type[Event], Row] | None = None,
    requests: Mapping[type[Effect], RequestOf] | None = None,
    starts: Callable[[StartRequest], Event] | None = None,
    rules: int = 1,
) -> Machine[G]:
    """Return a machine that can be driven: its own table, and the rows that every machine has.

    Args:
        name: as users know it.
        states: the enumeration of its states.
        initial: where a run begins.
        table: state -> event type -> row; its own rows only.
        effects: its own kinds of effect; those that start and call off child runs, and ask people, are added.
        memory: makes an empty memory.
        control: what it says of the events that every machine takes.
        ends: states in which a run has ended although a row leads out of them.
        common: further rows that every state has, unless its own rows name the event.
        while_live: the same, except for states in which the run has ended.
        requests: see ``Machine``; of its own kinds of effect.
        starts: makes the event that begins a run which another run has started; None where it cannot be a child.
        rules: version of its moves; see ``Machine``.

    Raises:
        ValueError: the table is not sound.
    """
    return Machine(
        name,
        states=states,
        initial=initial,
        table=table,
        effects=(*effects, StartChild, Relay, Ask, Withdraw),
        memory=memory,
        ends=ends,
        common={**_everywhere(control), **(common or {})},
        while_live={**_while_live(control), **(while_live or {})},
        settled=_count,
        check_end=_check_end,
        requests={**CHILD_REQUESTS, **(requests or {})},
        starts=starts,
        rules=rules,
    )


def _everywhere(control: Control) -> dict[type[Event], Row]:
    def claimed(memory: Governed, event: Claimed, turn: Turn) -> enum.StrEnum:
        memory.resting.clear()  # its children will say how they are
        control.claimed(memory, event, turn)
        return turn.state

    def forked(memory: Governed, event: Forked, turn: Turn) -> enum.StrEnum:
        for effect in children_of(turn):  # they are the other run's
            turn.perform(Withdraw(target=effect))
            turn.abandon(effect)
        memory.resting.clear()
        control.forked(memory, event, turn)
        return turn.state

    return {
        Claimed: row(claimed),
        Forked: row(forked),
        Drained: row(_nothing_left),
        ChildRested: row(_rested),
        Relayed: row(_settled),
        Answered: row(_answered_late),
        Withdrawn: row(_settled),
    }


def _while_live(control: Control) -> dict[type[Event], Row]:
    def paused(memory: Governed, event: Pause, turn: Turn) -> enum.StrEnum:
        control.paused(memory, event, turn)
        tell_children(children_of(turn), event, turn)
        return turn.state

    def unpaused(memory: Governed, event: Unpause, turn: Turn) -> enum.StrEnum:
        control.unpaused(memory, event, turn)
        tell_children(children_of(turn), event, turn)
        return turn.state

    return {Pause: row(paused), Unpause: row(unpaused), Cancel: control.cancel, Broke: control.defect}


def children_of(turn: Turn) -> list[str]:
    """Return the ids of the effects whose child run has not ended, oldest first; a fork has none of its origin's."""
    withdrawn = {effect.withdraws for effect in turn.outstanding.values()}
    return [effect for effect in turn.outstanding if is_child(effect, turn) and effect not in withdrawn]


def is_child(effect: str, turn: Turn) -> bool:
    """True where an effect is a child run that has not ended."""
    return effect != turn.settles and isinstance(turn.outstanding.get(effect), StartChild)


def call_off(effect: str, turn: Turn, why: str = "") -> None:
    """Withdraw an outstanding effect, or cancel the child run that it has started; its outcome will have no consequence."""
    turn.perform(relay(effect, Cancel(reason=why)) if is_child(effect, turn) else Withdraw(target=effect))
    turn.abandon(effect)


def cancels_to(state: enum.StrEnum) -> Row:
    """Return a row for ``Cancel`` that calls off everything outstanding and ends in a state."""

    def cancelled(memory: Governed, event: Cancel, turn: Turn) -> enum.StrEnum:
        return _give_up(memory, "cancelled", why_cancelled(event.reason, turn), state, turn)

    return row(cancelled, state)


def fails_to(state: enum.StrEnum) -> Row:
    """Return a row for ``Broke`` that calls off everything outstanding and ends in a state."""

    def broke(memory: Governed, event: Broke, turn: Turn) -> enum.StrEnum:
        return _give_up(memory, DEFECT, why_broke(event), state, turn)

    return row(broke, state)


def why_cancelled(reason: str, turn: Turn) -> str:
    """Return who cancelled the run, and why, in words."""
    return f"cancelled by {turn.actor}" + (f": {reason}" if reason else "")


def why_broke(event: Broke) -> str:
    """Return what could not be taken, in words."""
    return f"{event.event} could not be taken: {event.reason}"


def _give_up(memory: Governed, code: str, reason: str, state: enum.StrEnum, turn: Turn) -> enum.StrEnum:
    memory.code, memory.reason = code, reason
    for effect_id, effect in tuple(turn.outstanding.items()):
        if effect_id != turn.settles and effect_id not in turn.abandoned and not isinstance(effect, Withdraw | Relay):
            call_off(effect_id, turn, reason)
    return state


def _rested(memory: Governed, event: ChildRested, turn: Turn) -> enum.StrEnum | None:
    return turn.state if is_child(event.of, turn) and note_rest(memory.resting, event) else None


def _answered_late(memory: Governed, event: Answered, turn: Turn) -> enum.StrEnum:
    if not event.withdrawn:
        raise not_asked(event)
    return turn.state


def _settled(memory: Governed, event: Relayed | Withdrawn, turn: Turn) -> enum.StrEnum:
    return turn.state


def _nothing_left(memory: Governed, event: Drained, turn: Turn) -> None:
    """A run that has ended is not looked at, and makes no entry of it."""


def _count(memory: Governed, event: Outcome) -> None:
    memory.resting.discard(event.effect)
    memory.count(event)


def _check_end(memory: Governed) -> str:
    return "" if memory.outcome() else "its memory has no code; set it to 'finished', 'cancelled', or a word for what went wrong"
