"""What arrives at a run and is taken with its next batch: commands, outcomes, reports, news of devices."""

from __future__ import annotations

import msgspec

from asterism.kernel.machine import EffectResult, Event, kind_of
from asterism.machines.run_control import TransitionFailed


class Arrival(msgspec.Struct, frozen=True):
    """An event on its way in, who caused it, and the inbox key it came under.

    Attributes:
        by: id of the effect whose performer has reported it; empty for what nobody's performer has.
        failure: why it cannot be taken, if a move has failed over it.
    """

    event: Event
    actor: str
    key: str = ""
    by: str = ""
    failure: str = ""


def replacement(arrival: Arrival, reason: str, error: Exception) -> Arrival:
    """What is taken in place of an event that a move has failed over.

    An outcome breaks its run, and so does what a performer has reported; a command is refused to its sender.
    """
    event = arrival.event
    effect = event.effect_id if isinstance(event, EffectResult) else arrival.by
    if effect and not isinstance(event, TransitionFailed):
        return Arrival(TransitionFailed(effect_id=effect, event=kind_of(event), reason=reason), "system", arrival.key)
    if not arrival.key or isinstance(event, EffectResult):
        raise error
    return msgspec.structs.replace(arrival, failure=f"a defect of asterism: {kind_of(event)} could not be taken: {reason}")
