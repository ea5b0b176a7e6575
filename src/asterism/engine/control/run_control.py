"""The events and effects that every machine shares, and the base class of every memory.

A run's ownership, pauses, cancellation, forks and questions to people are not states of a machine.
``common_rows`` has the rows for these events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from asterism.engine.control.children import EditedBy
from asterism.engine.kernel.guards import DeviceGuards, Guards
from asterism.engine.kernel.machine import Effect, EffectResult, Event, RecoveryPolicy, StepContext
from asterism.engine.kernel.permissions import Permission, Permissions
from asterism.engine.kernel.phrase import Text, phrase
from asterism.errors import Refused

Verb = Literal["approve", "edit", "reject", "respond", "cancel"]
Risk = Literal["low", "medium", "high"]


class OwnershipAcquired(Event, tag="ownership_acquired", frozen=True, kw_only=True):
    """A driver has acquired ownership of the run: the first entry that an owner writes.

    Attributes:
        epoch: number of this ownership, from 1; a store refuses writes of an earlier epoch.
        retried: ids of the open effects that this owner performs again under the same key, unless
            their result or a cancel is in the same commit. For a new run it may be shorter: there
            every effect is performed.
    """

    adopts_rules: ClassVar[bool] = True
    is_progress: ClassVar[bool] = False

    epoch: int
    owner: str
    retried: tuple[str, ...] = ()


class BatchEnded(Event, tag="batch_ended", frozen=True, kw_only=True):
    """Ends a batch of events: those that were waiting when the driver took them, at most 1,000.

    A machine evaluates the run as a whole only on this event; timers arrive as this event, too. It
    is never part of an acquisition.
    """


class Pause(Event, tag="pause", frozen=True, kw_only=True):
    """Start nothing new until ``Unpause``."""

    from_outside: ClassVar[bool] = True

    reason: str = ""


class Unpause(Event, tag="unpause", frozen=True, kw_only=True):
    """Resume starting work after a ``Pause``."""

    from_outside: ClassVar[bool] = True


class Cancel(Event, tag="cancel", frozen=True, kw_only=True):
    """End the run for good; the reason of a child run's may be a phrase of its parent."""

    from_outside: ClassVar[bool] = True

    reason: Text = ""


class GuardLifted(Event, tag="guard_lifted", frozen=True, kw_only=True):
    """Lift the guard that a plan has set on a skill, or on a device without skills.

    Attributes:
        name: the skill or the device.
        reason: why, for the journal.
    """

    from_outside: ClassVar[bool] = True

    name: str
    reason: str


class FleetGuarded(Event, tag="fleet_guarded", frozen=True, kw_only=True):
    """What the present fleet guards, for a run that is acquired; the stricter of this and the run's own guards holds.

    Attributes:
        guards: by device id.
        skills: names of the skills of each device, but for ``here``.
        submitter_may_approve: False if who has submitted the run may not approve in it.
    """

    is_progress: ClassVar[bool] = False

    guards: dict[str, DeviceGuards]
    skills: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    submitter_may_approve: bool = True


class Forked(Event, tag="forked", frozen=True, kw_only=True):
    """This run is a copy of another run up to this entry.

    Its machine decides about work that was outstanding in the original. The machines of Asterism
    start repeatable and queued work again, and ask a person about other work. Questions that were
    open in the original are open here, too.

    Attributes:
        seq: number of the last copied entry.
        idle_s: seconds between that entry and this one; all timers move later by as much.
        guards: what the fleet guards now, by device id; None where the fleet is not known.
    """

    submits: ClassVar[bool] = True

    origin: str
    seq: int
    idle_s: float
    guards: dict[str, DeviceGuards] | None = None


class Imported(Event, tag="imported", frozen=True, kw_only=True):
    """This run has come from a file: lifts of guards are void, and so are approvals of work that has not begun."""

    adopts_rules: ClassVar[bool] = True
    submits: ClassVar[bool] = True


class TransitionFailed(EffectResult, tag="transition_failed", frozen=True, kw_only=True):
    """A defect in the code: a move failed on a result or report of this effect, or the effect gave no valid interrupted result.

    The run ends.

    Attributes:
        event: tag of the event that the move failed on, or of the effect.
    """

    event: str
    reason: Text


class Answered(EffectResult, tag="answered", frozen=True, kw_only=True):
    """A person's answer to a question.

    Attributes:
        verb: approve, edit (``value``: new arguments), reject (``reason``), respond (``value``),
            cancel.
        cancelled: True if nobody answered, because the question was cancelled or expired.
        digest: of an answer that may be a yes (``needs_digest``), that of the subject which was shown (``guards.digest_of``).
    """

    from_outside: ClassVar[bool] = True

    verb: Verb = "cancel"
    value: Any = None
    reason: str = ""
    cancelled: bool = False
    digest: str = ""


class AskPerson(Effect, tag="ask_person", frozen=True, kw_only=True):
    """A durable question to a person. Answers come through the inbox: the first under the effect's id, later ones under ``ID#2`` and so on.

    Attributes:
        question: what is asked; a text if somebody else wrote it, such as a device.
        kind: what an answer decides, such as ``approval``; a word of the machine.
        about: id of the task or step that it is about; empty for none.
        subject: the exact action to approve, as JSON; an approval holds for this subject only.
        schema: JSON Schema of a ``respond`` or ``edit`` value, for user interfaces; the moves check
            the value themselves. Empty for any value.
        expires_at: seconds since the epoch; 0 for never.
    """

    performed_outside: ClassVar[bool] = False

    question: Text
    kind: str = ""
    about: str = ""
    subject: dict[str, Any] = msgspec.field(default_factory=dict)
    verbs: tuple[Verb, ...] = ("approve", "reject")
    schema: dict[str, Any] = msgspec.field(default_factory=dict)
    risk: Risk = "low"
    expires_at: float = 0.0

    @property
    def prompt(self) -> str:
        """Return the question in words."""
        return str(self.question)

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return an answer marked as cancelled, which never counts as an approval."""
        return Answered(effect_id=effect_id, cancelled=True)


class CancelEffect(Effect, tag="cancel_effect", frozen=True, kw_only=True):
    """Cancel another effect.

    The result of that effect is journaled first, then the result of this one.
    """

    effect_id: str

    @property
    def cancels(self) -> str:
        """Return the id of the effect to cancel."""
        return self.effect_id

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return the only possible result of a cancellation."""
        return EffectCancelled(effect_id=effect_id)


class EffectCancelled(EffectResult, tag="effect_cancelled", frozen=True, kw_only=True):
    """The cancelled effect has its result in the journal."""


def needs_digest(verb: Verb, verbs: Sequence[Verb]) -> bool:
    """Return True if an answer may be a yes, also one in words, to a question that accepts ``verbs``: it names what was shown."""
    return verb in ("approve", "edit") or ("approve" in verbs and verb == "respond")


def needed_for(verb: Verb, kind: str) -> Permissions:
    """Return the permissions that an answer takes: an edit of a plan also takes that to edit one."""
    return (Permission.EDIT, Permission.ANSWER) if verb == "edit" and kind in ("plan", "edits") else (Permission.ANSWER,)


def check_sender(
    event: Answered, kind: str, context: StepContext, *, submitters: Sequence[str] = (), submitter_may_approve: bool = True
) -> None:
    """Check that the sender of an answer may give it.

    Args:
        event: the answer.
        kind: what is asked: ``plan`` or ``edits`` of a planner, ``conversation`` for the question of
            an agent to the person it talks with, or another word of the machine.
        context: has the sender, the permissions, and who has submitted or copied the run.
        submitters: who has submitted the root of the tree.
        submitter_may_approve: False if somebody else than a submitter must approve.

    Raises:
        Refused: the sender may not; the question stays open.
    """
    if missing := [it for it in needed_for(event.verb, kind) if it not in context.permissions]:
        raise Refused(phrase("answer.permission", actor=context.actor, verb=event.verb, inquiry=event.effect_id, missing=missing))
    is_submitter = _person(context.actor) in map(_person, (*context.submitters, *submitters))
    if is_submitter and not submitter_may_approve and kind != "conversation" and event.verb in ("approve", "edit"):
        raise Refused(phrase("answer.by_submitter", actor=context.actor, verb=event.verb, inquiry=event.effect_id))


def _person(actor: str) -> str:
    """Return the name in an actor: a token of another role with the same name is the same person."""
    return actor.partition("@")[0]


class RunMemory(msgspec.Struct, kw_only=True):
    """The base of every machine's memory: everything that a driver reads from it.

    Attributes:
        answered_by_submitter: True if its questions are for the person who has begun the run, as those of a conversation.
        verbs_checked: rules from which on a question accepts only the answers that it names.
        paused: True while nothing new is started.
        inquiries: open questions to people, by effect id, oldest first.
        blocked_children: ids of the ``StartChild`` effects whose child waits only for people, or is
            paused.
        code, why: code and reason of the end; empty while the run has not ended. ``reason`` is that in words.
        guards: its guards as they stand.
        waiting_since: since when the run only waits, in seconds since the epoch; 0 while it does not.
        waited_s: seconds in which it only waited before.
        edited: if somebody has edited its plan or arguments, here or in a child run of it.
    """

    answered_by_submitter: ClassVar[bool] = False
    verbs_checked: ClassVar[int] = 1

    paused: bool = False
    inquiries: dict[str, AskPerson] = {}
    blocked_children: set[str] = set()
    code: str = ""
    why: Text = ""
    guards: Guards = Guards()
    waiting_since: float = 0.0
    waited_s: float = 0.0
    edited: EditedBy = ""

    @property
    def reason(self) -> str:
        """Return the reason of the end in words."""
        return str(self.why)

    @reason.setter
    def reason(self, text: Text) -> None:
        self.why = text

    def only_waits(self, outstanding: Mapping[str, Effect]) -> bool:
        """Return True if nothing is under way or about to be: the run waits for people, a time, or a child run that does."""
        for effect_id, effect in outstanding.items():
            if effect.performed_outside and effect_id not in self.blocked_children:
                return False
        return bool(outstanding) and not self.has_pending_work()

    def note_waiting(self, outstanding: Mapping[str, Effect], at: float) -> None:
        """Note after an entry whether the run only waits, so that this time does not count to its limit."""
        waits = self.only_waits(outstanding)
        if self.waiting_since and not waits:
            self.waited_s += at - self.waiting_since
        self.waiting_since = (self.waiting_since or at) if waits else 0.0

    def waited_until(self, at: float) -> float:
        """Return the seconds in which the run only waited until ``at``."""
        return self.waited_s + (at - self.waiting_since if self.waiting_since else 0.0)

    def wake_at(self) -> float | None:
        """Return the epoch seconds at which a ``BatchEnded`` is due, apart from open questions; None without a timer."""
        return None

    def due_at(self) -> float | None:
        """Return the epoch seconds of the next ``BatchEnded``: at ``wake_at``, or when a question expires."""
        expiries = [it.expires_at for it in self.inquiries.values() if it.expires_at]
        own = self.wake_at()
        return min(expiries if own is None else (own, *expiries), default=None)

    def wake_up_at(self, at: float) -> None:
        """Note that a question expires at ``at``, in epoch seconds, in a machine that keeps a list of all times."""

    def inquiry_limit_s(self, kind: str) -> float | None:
        """Return the seconds after which a question of a kind expires; None for never."""
        return None

    def note_concerned(self, names: tuple[str, ...]) -> None:
        """Note that guards of a plan concern the work that is there, if the memory knows that of each piece of work."""

    def has_pending_work(self) -> bool:
        """Return True if the run will continue without an answer of a person, now or at a later time; then it is not ``waiting``."""
        return False

    def recovery_of(self, effect_id: str, effect: Effect) -> RecoveryPolicy:
        """Return the policy for an outstanding effect after a crash; by default that of its kind."""
        return effect.recovery_policy

    def count_usage(self, event: EffectResult) -> None:
        """Count the usage that an effect result reports, even if no move handles the result."""

    @staticmethod
    def edit_of(subject: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
        """Return the value of an answer ``edit`` as the run takes it; ``subject`` is what its question shows.

        Raises:
            InvalidInput: it changes what no answer may change.
        """
        return value

    def check_values(self, given: Answered) -> None:
        """Check the values of an answer that is not yet written, as far as the moves do not check them.

        Raises:
            InvalidInput: a value has another type than the question asks for.
        """

    def outcome(self) -> str:
        """Return ``finished``, ``failed`` or ``cancelled``; empty while the run has not ended."""
        return {"": "", "finished": "finished", "cancelled": "cancelled"}.get(self.code, "failed")

    def result(self) -> dict[str, Any]:
        """Return the result for the user: a ``summary``, and the items of ``failure_info``."""
        raise NotImplementedError(type(self).__name__)

    def report(self) -> dict[str, Any]:
        """Return the result for the parent run, with the items of ``failure_info``."""
        return self.result()

    def failure_info(self) -> dict[str, Any]:
        """Return ``code`` and ``reason`` of a run that did not finish, else an empty dictionary."""
        return {} if self.code in ("", "finished") else {"code": self.code, "reason": self.reason}
