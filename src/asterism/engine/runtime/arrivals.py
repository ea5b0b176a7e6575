"""Arrivals, which a run processes in its next batch: commands, effect results and reports.

Performers and effects may be user code. An event is encoded and decoded before it is processed, so
that a live step sees exactly what a replay will read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable
from typing import TypeGuard

import msgspec

from asterism.engine.control.run_control import TransitionFailed
from asterism.engine.kernel.data import error_text, read_back
from asterism.engine.kernel.machine import Effect, EffectResult, Event, kind_of
from asterism.engine.kernel.permissions import LOWEST, Permissions
from asterism.engine.kernel.phrase import Text, phrase
from asterism.engine.kernel.refusal import verdict_of
from asterism.errors import ForbiddenTarget, IllegalTransition, InvalidInput, Refused


class Arrival(msgspec.Struct, frozen=True):
    """An event that arrived, its actor, and the inbox key that it came under.

    Attributes:
        by: id of the effect whose performer reported the event; empty if no performer did.
        failure: why the event is refused, if a move raised an error for it.
        recorded: set when the event is in the journal and its effect continues; None if nobody waits
            for it.
        permissions: those of the sender of its inbox row.
    """

    event: Event
    actor: str
    key: str = ""
    by: str = ""
    failure: str = ""
    recorded: asyncio.Future[None] | None = None
    permissions: Permissions = LOWEST


def is_refusal(error: Exception) -> TypeGuard[IllegalTransition | Refused]:
    """Return True for an error by which a machine refuses an event, so that nothing has changed."""
    return isinstance(error, IllegalTransition | Refused) and not isinstance(error, ForbiddenTarget)


def replacement(arrival: Arrival, reason: str, error: Exception) -> Arrival:
    """Return the arrival to process instead of one for which a move raised an error.

    An effect result, or a performer's report, fails the run; a command is refused with a verdict
    for its sender.
    """
    event = arrival.event
    effect_id = event.effect_id if isinstance(event, EffectResult) else arrival.by
    if effect_id and not isinstance(event, TransitionFailed):
        return Arrival(TransitionFailed(effect_id=effect_id, event=kind_of(event), reason=reason), "system", arrival.key)
    if not arrival.key or isinstance(event, EffectResult):
        raise error
    return msgspec.structs.replace(arrival, failure=verdict_of(phrase("command_defect", event=kind_of(event), reason=reason)))


def confirm(arrivals: Iterable[Arrival], outstanding: Container[str], abandoned: Container[str]) -> None:
    """Tell the performers whose effects still go on that the journal has their reports."""
    for it in arrivals:
        if it.recorded and it.by in outstanding and it.by not in abandoned and not it.recorded.done():
            it.recorded.set_result(None)


def effect_result(effect_id: str, returned: object) -> EffectResult:
    """Return a performer's result as the journal gives it back.

    Raises:
        TypeError: not a result of this effect, which would then stay open forever; or a journal
            cannot hold it.
    """
    if not isinstance(returned, EffectResult) or returned.effect_id != effect_id:
        raise TypeError(f"its performer returned {returned!r:.200}, which is not its result")
    try:
        return read_back(returned)
    except InvalidInput as error:
        raise TypeError(f"its performer returned {returned!r:.200}: {error}") from None


def interrupted_result(effect_id: str, effect: Effect, why: Text) -> EffectResult:
    """Return the result of a cancelled or lost effect; ``TransitionFailed`` if it has none."""
    try:
        result: object = effect.interrupted(effect_id, why)
        if isinstance(result, EffectResult) and result.effect_id == effect_id:
            return read_back(result)
        problem = phrase("no_result_of_interrupted", returned=f"{result!r:.200}")
    except Exception as error:  # boundary: a defect in an effect's own code ends its run only, with its name
        problem = phrase("interrupted_failed", error=error_text(error).partition("\n")[0])
    return TransitionFailed(effect_id=effect_id, event=kind_of(effect), reason=phrase("without_result", why=why, problem=problem))
