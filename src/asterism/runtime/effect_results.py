"""The outcome of an effect, before its run takes it: from its performer, or from the effect itself where it was called off or lost.

Both may be a program's own code. A run moves by what its journal gives back, so that a replay moves it alike.
"""

from __future__ import annotations

from asterism.errors import InvalidInput
from asterism.kernel.data import error_text, read_back
from asterism.kernel.machine import Effect, EffectResult, kind_of
from asterism.machines.run_control import TransitionFailed


def effect_result(effect_id: str, returned: object) -> EffectResult:
    """Return what a performer has returned, as the journal gives it back.

    Raises:
        TypeError: it is no outcome of this effect, which would stay open for good; or a journal cannot hold it.
    """
    if not isinstance(returned, EffectResult) or returned.effect_id != effect_id:
        raise TypeError(f"its performer returned {returned!r:.200}, which is no outcome of it")
    try:
        return read_back(returned)
    except InvalidInput as error:
        raise TypeError(f"its performer returned {returned!r:.200}: {error}") from None


def interrupted_result(effect_id: str, effect: Effect, why: str) -> EffectResult:
    """Return the outcome of an effect that was called off or lost; where the effect does not give one, its run has met a defect."""
    try:
        outcome: object = effect.interrupted(effect_id, why)
        if isinstance(outcome, EffectResult) and outcome.effect_id == effect_id:
            return read_back(outcome)
        problem = f"its method interrupted returned {outcome!r:.200}, which is no outcome of it"
    except Exception as error:  # boundary: a defect in an effect's own code ends its run by name, and no other
        problem = f"its method interrupted failed: {error_text(error)}".partition("\n")[0]
    return TransitionFailed(effect_id=effect_id, event=kind_of(effect), reason=f"{why}; {problem}")
