"""What arrives at a run and is taken with its next batch: commands, outcomes, reports, news of devices."""

from __future__ import annotations

import msgspec

from asterism.kernel.machine import Event, Outcome, kind_of
from asterism.machines.control import Broke


class Arrival(msgspec.Struct, frozen=True):
    """An event on its way in, who caused it, and the inbox key it came under.

    Attributes:
        by: id of the effect whose performer has reported it; empty for what nobody's performer has.
        broke: why it cannot be taken, if a move has failed over it.
    """

    event: Event
    actor: str
    key: str = ""
    by: str = ""
    broke: str = ""


def instead(arrival: Arrival, reason: str, error: Exception) -> Arrival:
    """What is taken in place of an event that a move has failed over.

    An outcome breaks its run, and so does what a performer has reported; a command is refused to its sender.
    """
    event = arrival.event
    effect = event.effect if isinstance(event, Outcome) else arrival.by
    if effect and not isinstance(event, Broke):
        return Arrival(Broke(effect=effect, event=kind_of(event), reason=reason), "system", arrival.key)
    if not arrival.key or isinstance(event, Outcome):
        raise error
    return msgspec.structs.replace(arrival, broke=f"a defect of asterism: {kind_of(event)} could not be taken: {reason}")
