"""What every machine has in common: being claimed, paused, cancelled and forked, asking people, and what a driver asks of its memory.

These are events, effects and the base of every memory. The rows for them are in ``common_rows``; none of them is a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import msgspec

from asterism.errors import Refused
from asterism.kernel.machine import Effect, EffectResult, Event, StepContext

Verb = Literal["approve", "edit", "reject", "respond", "cancel"]
Risk = Literal["low", "medium", "high"]


class OwnershipAcquired(Event, tag="ownership_acquired", frozen=True, kw_only=True):
    """An owner has taken the run; the first thing an owner writes.

    Attributes:
        retried: ids of the effects that it performs again, under the same id.
    """

    adopts_rules: ClassVar[bool] = True

    epoch: int
    owner: str
    retried: tuple[str, ...] = ()


class BatchEnded(Event, tag="batch_ended", frozen=True, kw_only=True):
    """Every event that had arrived was taken. The only event whose move looks at the whole; also how time passes."""


class Pause(Event, tag="pause", frozen=True, kw_only=True):
    """Start nothing new."""

    from_outside: ClassVar[bool] = True

    reason: str = ""


class Unpause(Event, tag="unpause", frozen=True, kw_only=True):
    """Start things again."""

    from_outside: ClassVar[bool] = True


class Cancel(Event, tag="cancel", frozen=True, kw_only=True):
    """Stop the run for good."""

    from_outside: ClassVar[bool] = True

    reason: str = ""


class Forked(Event, tag="forked", frozen=True, kw_only=True):
    """This run was copied from another one, up to here; what was under way there is decided anew.

    Attributes:
        origin: the other run's id.
        seq: of its last entry that was copied.
        idle_s: time that passed between that entry and this one; every time that lies ahead moves by it.
    """

    origin: str
    seq: int
    idle_s: float


class TransitionFailed(EffectResult, tag="transition_failed", frozen=True, kw_only=True):
    """A move failed over the outcome of this effect: a defect of ours. The run ends, by name."""

    event: str
    reason: str


class Answered(EffectResult, tag="answered", frozen=True, kw_only=True):
    """A person's answer to an inquiry.

    Attributes:
        verb: approve, edit (``value``: new arguments), reject (``reason``), respond (``value``), cancel.
        cancelled: nobody answered; the question was called off, or it expired.
    """

    from_outside: ClassVar[bool] = True

    verb: Verb = "cancel"
    value: Any = None
    reason: str = ""
    cancelled: bool = False


class AskPerson(Effect, tag="ask_person", frozen=True, kw_only=True):
    """A durable question to a person. Its outcome comes through the inbox, under its id.

    Attributes:
        prompt: the question in words.
        subject: exactly what is to be done (JSON); an approval is bound to it.
        verbs: the answers it takes.
        schema: JSON Schema of a ``respond`` or ``edit`` value, for whoever asks the person; a move checks the value. Empty for any.
        expires_at: seconds since the epoch; 0 for never.
    """

    performed_outside: ClassVar[bool] = False

    prompt: str
    subject: dict[str, Any] = msgspec.field(default_factory=dict)
    verbs: tuple[Verb, ...] = ("approve", "reject")
    schema: dict[str, Any] = msgspec.field(default_factory=dict)
    risk: Risk = "low"
    expires_at: float = 0.0

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """Called off: nobody answered, and no answer is not a yes."""
        return Answered(effect_id=effect_id, reason=why, cancelled=True)


class CancelEffect(Effect, tag="cancel_effect", frozen=True, kw_only=True):
    """Call another effect off. That one gets its own outcome first, this one after it."""

    effect_id: str

    @property
    def cancels(self) -> str:
        """The effect it calls off."""
        return self.effect_id

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """Its own outcome; there is no other."""
        return EffectCancelled(effect_id=effect_id)


class EffectCancelled(EffectResult, tag="effect_cancelled", frozen=True, kw_only=True):
    """An effect was called off, and its outcome is in the journal."""


def expiry(context: StepContext, limit_s: float | None) -> float:
    """When a question that is asked now expires, in seconds since the epoch; 0 for never."""
    return context.at + limit_s if limit_s else 0.0


def no_longer_open(event: Answered) -> Refused:
    """The answer is to no open question."""
    return Refused(f"{event.effect_id} is not asked any more")


def check_verb(event: Answered, verbs: Sequence[Verb]) -> None:
    """See that a question takes this kind of answer; every one can be called off.

    Raises:
        Refused: it does not; the question stays open.
    """
    if event.verb not in (*verbs, "cancel"):
        raise Refused(f"{event.effect_id} takes {', '.join(verbs)}, not {event.verb}")


class RunMemory(msgspec.Struct, kw_only=True):
    """What a driver may ask of any machine's memory.

    Attributes:
        paused: start nothing new.
        blocked_children: ids of the effects whose children wait for nothing but people, or are paused.
        code, reason: why it ended; empty while it has not.
    """

    paused: bool = False
    blocked_children: set[str] = set()
    code: str = ""
    reason: str = ""

    def wake_at(self) -> float | None:
        """When BatchEnded has something to do though nothing arrives: seconds since the epoch; None for never."""
        return None

    def has_pending_work(self) -> bool:
        """True when it will go on by itself though no effect but questions to people is outstanding."""
        return False

    def count_usage(self, event: EffectResult) -> None:
        """Count what an effect has used, whatever becomes of its outcome."""

    def outcome(self) -> str:
        """How the run ended (``finished``, ``failed``, ``cancelled``); empty while it has not."""
        return {"": "", "finished": "finished", "cancelled": "cancelled"}.get(self.code, "failed")

    def result(self) -> dict[str, Any]:
        """The result for the user; ``summary`` in words, and what ``failure_info`` says."""
        raise NotImplementedError(type(self).__name__)

    def report(self) -> dict[str, Any]:
        """What came of it, for the run that started it; with what ``failure_info`` says."""
        return self.result()

    def failure_info(self) -> dict[str, Any]:
        """``code`` and ``reason`` where it did not finish; else nothing."""
        return {} if self.code in ("", "finished") else {"code": self.code, "reason": self.reason}
