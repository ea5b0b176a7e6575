"""Arrivals, which a run processes in its next batch: commands, effect results and reports."""

from __future__ import annotations

import msgspec

from asterism.kernel.machine import EffectResult, Event, kind_of
from asterism.machines.run_control import TransitionFailed


class Arrival(msgspec.Struct, frozen=True):
    """An event that arrived, its actor, and the inbox key that it came under.

    Attributes:
        by: id of the effect whose performer reported the event; empty if no performer did.
        failure: why the event is rejected, if a move failed over it.
    """

    event: Event
    actor: str
    key: str = ""
    by: str = ""
    failure: str = ""


def replacement(arrival: Arrival, reason: str, error: Exception) -> Arrival:
    """Return the arrival to process instead of one that a move failed over.

    An effect result, or a performer's report, fails the run; a command is rejected with a verdict
    for its sender.
    """
    event = arrival.event
    effect_id = event.effect_id if isinstance(event, EffectResult) else arrival.by
    if effect_id and not isinstance(event, TransitionFailed):
        return Arrival(TransitionFailed(effect_id=effect_id, event=kind_of(event), reason=reason), "system", arrival.key)
    if not arrival.key or isinstance(event, EffectResult):
        raise error
    return msgspec.structs.replace(arrival, failure=f"a defect of asterism: {kind_of(event)} could not be taken: {reason}")
