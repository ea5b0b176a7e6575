"""The rows that every machine has, for the events of ``run_control`` and ``children``.

They cover ownership, pauses, cancellation, forks, blocked children and late effect results. A
machine adds its own part in a ``RunControl``; its table has only its own rows.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from asterism.engine.control.children import (
    CHILD_REQUESTS,
    ChildBlocked,
    ChildSignaled,
    SignalChild,
    StartChild,
    note_blocked,
    root_of,
    signal_child,
    signal_children,
)
from asterism.engine.control.guarding import lift_guard, take_fleet
from asterism.engine.control.inquiries import ask_again, check_answer, close_inquiry, is_expired, note_questions
from asterism.engine.control.run_control import (
    Answered,
    AskPerson,
    BatchEnded,
    Cancel,
    CancelEffect,
    EffectCancelled,
    FleetGuarded,
    Forked,
    GuardLifted,
    Imported,
    OwnershipAcquired,
    Pause,
    RunMemory,
    TransitionFailed,
    Unpause,
)
from asterism.engine.kernel.guards import not_lifted
from asterism.engine.kernel.machine import Effect, EffectResult, Event, Machine, RequestFactory, Row, StartRequest, StepContext, Table, row
from asterism.engine.kernel.permissions import Permission
from asterism.engine.kernel.phrase import Text, phrase
from asterism.errors import Refused

DEFECT = "defect"
"""Code of a run that ended because of a defect in the code (``TransitionFailed``)."""
G = TypeVar("G", bound=RunMemory)
Hook = Callable[[Any, Any, StepContext], None]
"""The machine's own part in handling a common event: ``(memory, event, context)``."""
GiveUp = Callable[[Any, str, Text, StepContext], object]
"""Ends a run before it has finished: ``(memory, code, reason, context)``."""


def _nothing(memory: RunMemory, event: Event, context: StepContext) -> None:
    """Add nothing to the common part."""


def _pause(memory: RunMemory, event: Pause, context: StepContext) -> None:
    memory.paused = True


def _unpause(memory: RunMemory, event: Unpause, context: StepContext) -> None:
    memory.paused = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RunControl:
    """A machine's own part in handling the events that all machines share.

    Attributes:
        cancel: row for ``Cancel`` in states in which the run has not ended (``cancels_to`` makes
            one).
        defect: row for ``TransitionFailed`` in the same states (``fails_to`` makes one).
        ownership_acquired: called at each acquisition of the run, the first one included.
        forked: called in a copied run, after its copied ``StartChild`` effects are cancelled; the
            original and its child runs go on. Then questions that are still open are asked again.
        asked_again: called for each of these, with its id in the original and here, for a memory that has it.
        imported: called in a run that has come from a file, with its child runs.
        paused: pauses this run, or refuses; by default it sets ``memory.paused``. Then the pause is
            signaled to the children.
        unpaused: the same for an unpause.
    """

    cancel: Row
    defect: Row
    ownership_acquired: Hook = _nothing
    forked: Hook = _nothing
    asked_again: Callable[[Any, str, str, StepContext], object] = lambda memory, before, now, context: None
    imported: Hook = _nothing
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
    """Return a machine with its own table and the common rows.

    Args:
        name: name shown to users.
        states: the enumeration of its states.
        initial: the state in which a run begins.
        table: state -> event type -> row, with its own rows only.
        effects: its own kinds of effect; those for child runs, cancellation and questions are
            added.
        memory: returns an empty memory.
        control: its own part in handling the common events.
        ends: further states in which a run has ended, although a row leads out of them.
        common: further rows of every state, for events that the state's own rows do not name.
        while_live: the same, except for states in which the run has ended.
        requests: request factories of its own kinds of effect; see ``Machine``.
        starts: returns the event that begins a child run; None if the machine cannot be a child.
        rules: version of its moves; see ``Machine``.

    Raises:
        ValueError: the table is not sound.
    """
    return Machine(
        name,
        states=states,
        initial=initial,
        table={state: _asking(rows) for state, rows in table.items()},
        effects=(*effects, StartChild, SignalChild, AskPerson, CancelEffect),
        memory=memory,
        ends=ends,
        common={**_everywhere(control), **(common or {})},
        while_live=_asking({**_while_live(control), **(while_live or {})}),
        settled=_count,
        moved=note_questions,
        advanced=RunMemory.note_waiting,
        check_end=_check_end,
        requests={**CHILD_REQUESTS, **(requests or {})},
        starts=starts,
        rules=rules,
    )


def _asking(rows: Mapping[type[Event], Row]) -> Mapping[type[Event], Row]:
    """Return rows of which that for answers, if any, gets only those that the question accepts, and closes it.

    A state that only waits for an answer also gets one that is ``cancelled`` when the question has expired.
    """
    answered = rows.get(Answered)
    if answered is None:
        return rows
    take = answered.move

    @functools.wraps(take)
    def checked(memory: RunMemory, event: Answered, context: StepContext) -> enum.StrEnum | None:
        check_answer(memory, event, context)
        state = take(memory, event, context)  # type: ignore[arg-type]  # wraps() has handed its annotation to problems()
        memory.inquiries.pop(event.effect_id, None)
        return state

    def expired(memory: RunMemory, event: BatchEnded, context: StepContext) -> enum.StrEnum | None:
        late = next((inquiry_id for inquiry_id in memory.inquiries if is_expired(memory, inquiry_id, context)), "")
        if not late:
            return None
        close_inquiry(memory, late, context)
        return take(memory, Answered(effect_id=late, cancelled=True), context)  # type: ignore[arg-type]

    return {BatchEnded: row(expired, *answered.to, internal=True), **rows, Answered: Row(checked, answered.to, answered.internal)}


def _everywhere(control: RunControl) -> dict[type[Event], Row]:
    def ownership_acquired(memory: RunMemory, event: OwnershipAcquired, context: StepContext) -> enum.StrEnum:
        memory.blocked_children.clear()  # each child reports again under the new owner
        control.ownership_acquired(memory, event, context)
        return context.state

    def forked(memory: RunMemory, event: Forked, context: StepContext) -> enum.StrEnum:
        if memory.guards.is_approved:
            raise Refused(phrase("guards.approved_above", run=root_of(event.origin)))
        for effect in children_of(context):  # copied effects: the child runs belong to the original, and go on
            context.schedule(CancelEffect(effect_id=effect))
            context.abandon(effect)
        memory.blocked_children.clear()
        if memory.waiting_since:
            memory.waiting_since += event.idle_s
        if event.guards is not None:
            memory.guards = msgspec.structs.replace(memory.guards, devices=event.guards)
        if Permission.ADMIN not in context.permissions:
            _hold_lifted(memory)
        copied = tuple(memory.inquiries)
        control.forked(memory, event, context)
        for inquiry_id in filter(memory.inquiries.__contains__, copied):
            control.asked_again(memory, inquiry_id, ask_again(memory, inquiry_id, context), context)
        return context.state

    def imported(memory: RunMemory, event: Imported, context: StepContext) -> enum.StrEnum:
        _hold_lifted(memory)
        control.imported(memory, event, context)
        return context.state

    return {
        OwnershipAcquired: row(ownership_acquired),
        Forked: row(forked),
        FleetGuarded: row(take_fleet),
        Imported: row(imported),
        BatchEnded: row(_batch_ended),
        ChildBlocked: row(_child_blocked),
        ChildSignaled: row(_settled),
        Answered: row(_answered_late),
        EffectCancelled: row(_settled),
    }


def _hold_lifted(memory: RunMemory) -> None:
    """Let the guards hold again that were lifted, for the work that is there, too."""
    memory.note_concerned(memory.guards.lifted)
    memory.guards = not_lifted(memory.guards)


def _while_live(control: RunControl) -> dict[type[Event], Row]:
    def paused(memory: RunMemory, event: Pause, context: StepContext) -> enum.StrEnum:
        control.paused(memory, event, context)
        signal_children(children_of(context), event, context)
        return context.state

    def unpaused(memory: RunMemory, event: Unpause, context: StepContext) -> enum.StrEnum:
        control.unpaused(memory, event, context)
        signal_children(children_of(context), event, context)
        return context.state

    return {
        Pause: row(paused),
        Unpause: row(unpaused),
        Cancel: control.cancel,
        TransitionFailed: control.defect,
        GuardLifted: row(lift_guard),
    }


def children_of(context: StepContext) -> list[str]:
    """Return the ids of the ``StartChild`` effects whose run has not ended, oldest first.

    A fork has none of its original's children: the copied effects are being cancelled.
    """
    cancelled = {effect.cancels for effect in context.outstanding.values()}
    return [effect for effect in context.outstanding if is_child(effect, context) and effect not in cancelled]


def is_child(effect_id: str, context: StepContext) -> bool:
    """Return True if an effect is a child run that has not ended."""
    return effect_id != context.settles and isinstance(context.outstanding.get(effect_id), StartChild)


def cancel_effect(effect_id: str, context: StepContext, why: Text = "") -> None:
    """Cancel an outstanding effect, or the child run that it started, and ignore its result."""
    context.schedule(signal_child(effect_id, Cancel(reason=why)) if is_child(effect_id, context) else CancelEffect(effect_id=effect_id))
    context.abandon(effect_id)


def _give_up(memory: RunMemory, code: str, reason: Text, context: StepContext) -> None:
    """Record the end of a run and cancel all its effects."""
    memory.code, memory.why = code, reason
    for effect_id, effect in tuple(context.outstanding.items()):
        if effect_id != context.settles and effect_id not in context.abandoned and not isinstance(effect, CancelEffect | SignalChild):
            cancel_effect(effect_id, context, reason)


def cancels_to(state: enum.StrEnum, give_up: GiveUp = _give_up) -> Row:
    """Return a row for ``Cancel`` that ends the run in ``state``; by default cancels all effects."""

    def cancelled(memory: RunMemory, event: Cancel, context: StepContext) -> enum.StrEnum:
        give_up(memory, "cancelled", phrase("run_cancelled", by=context.actor, why=event.reason), context)
        return state

    return row(cancelled, state)


def fails_to(state: enum.StrEnum, give_up: GiveUp = _give_up) -> Row:
    """Return a row for ``TransitionFailed``; ``state`` and ``give_up`` as in ``cancels_to``."""

    def failed(memory: RunMemory, event: TransitionFailed, context: StepContext) -> enum.StrEnum:
        give_up(memory, DEFECT, phrase("run_defect", event=event.event, why=event.reason), context)
        return state

    return row(failed, state)


def _child_blocked(memory: RunMemory, event: ChildBlocked, context: StepContext) -> enum.StrEnum | None:
    return context.state if is_child(event.effect_id, context) and note_blocked(memory.blocked_children, event) else None


def _answered_late(memory: RunMemory, event: Answered, context: StepContext) -> enum.StrEnum:
    if not event.cancelled:
        raise Refused(phrase("answer.not_open", inquiry=event.effect_id))
    return context.state


def _settled(memory: RunMemory, event: ChildSignaled | EffectCancelled, context: StepContext) -> enum.StrEnum:
    return context.state


def _batch_ended(memory: RunMemory, event: BatchEnded, context: StepContext) -> None:
    """Make no entry in a state that has no row of its own for the event."""


def _count(memory: RunMemory, event: EffectResult) -> None:
    memory.blocked_children.discard(event.effect_id)
    memory.count_usage(event)


def _check_end(memory: RunMemory) -> str:
    return "" if memory.outcome() else "its memory has no code; set it to 'finished', 'cancelled', or a word for what went wrong"
