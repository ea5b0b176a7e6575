"""The rows that every machine has, written once: claims, pauses, cancels, forks, children that wait, outcomes that come too late.

A machine says only what is its own about them. Its table says where it may lead, and nothing of these.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from asterism.kernel.machine import Effect, EffectResult, Event, Machine, RequestFactory, Row, StepContext, Table, row
from asterism.kernel.start import StartRequest
from asterism.machines.children import (
    CHILD_REQUESTS,
    ChildBlocked,
    ChildSignaled,
    SignalChild,
    StartChild,
    note_blocked,
    signal_child,
    signal_children,
)
from asterism.machines.run_control import (
    Answered,
    AskPerson,
    BatchEnded,
    Cancel,
    CancelEffect,
    EffectCancelled,
    Forked,
    OwnershipAcquired,
    Pause,
    RunMemory,
    TransitionFailed,
    Unpause,
    no_longer_open,
)

DEFECT = "defect"
"""Code of a run that ended because a move failed over an outcome."""
G = TypeVar("G", bound=RunMemory)
Hook = Callable[[Any, Any, StepContext], None]
"""What a machine does about an event besides what every machine does: ``(memory, event, turn)``."""


def _nothing(memory: RunMemory, event: Event, context: StepContext) -> None:
    """Do no more than every machine does."""


def _pause(memory: RunMemory, event: Pause, context: StepContext) -> None:
    memory.paused = True


def _unpause(memory: RunMemory, event: Unpause, context: StepContext) -> None:
    memory.paused = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RunControl:
    """What a machine says of the events that every machine takes.

    Attributes:
        cancel: the row for ``Cancel``, in every state in which the run has not ended (``cancels_to`` makes one).
        defect: the row for ``TransitionFailed``, there (``fails_to`` makes one).
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


def define_machine(
    name: str,
    *,
    states: type[enum.StrEnum],
    initial: enum.StrEnum,
    table: Table,
    effects: Iterable[type[Effect]],
    memory: Callable[[], G],
    control: RunControl,
    ends: Iterable[enum.StrEnum] = (),
    common: Mapping[type[Event], Row] | None = None,
    while_live: Mapping[type[Event], Row] | None = None,
    requests: Mapping[type[Effect], RequestFactory] | None = None,
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
        effects=(*effects, StartChild, SignalChild, AskPerson, CancelEffect),
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


def _everywhere(control: RunControl) -> dict[type[Event], Row]:
    def claimed(memory: RunMemory, event: OwnershipAcquired, context: StepContext) -> enum.StrEnum:
        memory.blocked_children.clear()  # its children will say how they are
        control.claimed(memory, event, context)
        return context.state

    def forked(memory: RunMemory, event: Forked, context: StepContext) -> enum.StrEnum:
        for effect in children_of(context):  # they are the other run's
            context.schedule(CancelEffect(effect_id=effect))
            context.abandon(effect)
        memory.blocked_children.clear()
        control.forked(memory, event, context)
        return context.state

    return {
        OwnershipAcquired: row(claimed),
        Forked: row(forked),
        BatchEnded: row(_nothing_left),
        ChildBlocked: row(_rested),
        ChildSignaled: row(_settled),
        Answered: row(_answered_late),
        EffectCancelled: row(_settled),
    }


def _while_live(control: RunControl) -> dict[type[Event], Row]:
    def paused(memory: RunMemory, event: Pause, context: StepContext) -> enum.StrEnum:
        control.paused(memory, event, context)
        signal_children(children_of(context), event, context)
        return context.state

    def unpaused(memory: RunMemory, event: Unpause, context: StepContext) -> enum.StrEnum:
        control.unpaused(memory, event, context)
        signal_children(children_of(context), event, context)
        return context.state

    return {Pause: row(paused), Unpause: row(unpaused), Cancel: control.cancel, TransitionFailed: control.defect}


def children_of(context: StepContext) -> list[str]:
    """Return the ids of the effects whose child run has not ended, oldest first; a fork has none of its origin's."""
    withdrawn = {effect.cancels for effect in context.outstanding.values()}
    return [effect for effect in context.outstanding if is_child(effect, context) and effect not in withdrawn]


def is_child(effect_id: str, context: StepContext) -> bool:
    """True where an effect is a child run that has not ended."""
    return effect_id != context.settles and isinstance(context.outstanding.get(effect_id), StartChild)


def cancel_effect(effect_id: str, context: StepContext, why: str = "") -> None:
    """Withdraw an outstanding effect, or cancel the child run that it has started; its outcome will have no consequence."""
    context.schedule(signal_child(effect_id, Cancel(reason=why)) if is_child(effect_id, context) else CancelEffect(effect_id=effect_id))
    context.abandon(effect_id)


def cancels_to(state: enum.StrEnum) -> Row:
    """Return a row for ``Cancel`` that calls off everything outstanding and ends in a state."""

    def cancelled(memory: RunMemory, event: Cancel, context: StepContext) -> enum.StrEnum:
        return _give_up(memory, "cancelled", why_cancelled(event.reason, context), state, context)

    return row(cancelled, state)


def fails_to(state: enum.StrEnum) -> Row:
    """Return a row for ``TransitionFailed`` that calls off everything outstanding and ends in a state."""

    def broke(memory: RunMemory, event: TransitionFailed, context: StepContext) -> enum.StrEnum:
        return _give_up(memory, DEFECT, why_transition_failed(event), state, context)

    return row(broke, state)


def why_cancelled(reason: str, context: StepContext) -> str:
    """Return who cancelled the run, and why, in words."""
    return f"cancelled by {context.actor}" + (f": {reason}" if reason else "")


def why_transition_failed(event: TransitionFailed) -> str:
    """Return what could not be taken, in words."""
    return f"{event.event} could not be taken: {event.reason}"


def _give_up(memory: RunMemory, code: str, reason: str, state: enum.StrEnum, context: StepContext) -> enum.StrEnum:
    memory.code, memory.reason = code, reason
    for effect_id, effect in tuple(context.outstanding.items()):
        if effect_id != context.settles and effect_id not in context.abandoned and not isinstance(effect, CancelEffect | SignalChild):
            cancel_effect(effect_id, context, reason)
    return state


def _rested(memory: RunMemory, event: ChildBlocked, context: StepContext) -> enum.StrEnum | None:
    return context.state if is_child(event.effect_id, context) and note_blocked(memory.blocked_children, event) else None


def _answered_late(memory: RunMemory, event: Answered, context: StepContext) -> enum.StrEnum:
    if not event.cancelled:
        raise no_longer_open(event)
    return context.state


def _settled(memory: RunMemory, event: ChildSignaled | EffectCancelled, context: StepContext) -> enum.StrEnum:
    return context.state


def _nothing_left(memory: RunMemory, event: BatchEnded, context: StepContext) -> None:
    """A run that has ended is not looked at, and makes no entry of it."""


def _count(memory: RunMemory, event: EffectResult) -> None:
    memory.blocked_children.discard(event.effect_id)
    memory.count_usage(event)


def _check_end(memory: RunMemory) -> str:
    return "" if memory.outcome() else "its memory has no code; set it to 'finished', 'cancelled', or a word for what went wrong"
