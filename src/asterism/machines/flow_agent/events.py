"""The eight states of a flow agent, where each may lead, what happens to it, and what it asks for.

The states and ``STATE_TRANSITIONS`` are the contract with users and never change. User code moves a flow only
through ``RunningEntered`` and ``HandlerEnded``, which record as data what a handler did.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal

import msgspec

from asterism.kernel.machine import Effect, EffectResult, Event, RecoveryPolicy
from asterism.machines.children import StartChild
from asterism.machines.run_control import Verb


class AgentStatus(StrEnum):
    """Where a conversation is. The eight are fixed; sub-states live in its metadata."""

    INITIALIZING = "INITIALIZING"
    WAITING_FOR_INPUT = "WAITING_FOR_INPUT"
    WAITING_FOR_APPROVAL = "WAITING_FOR_APPROVAL"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"


INITIALIZING, WAITING_FOR_INPUT, WAITING_FOR_APPROVAL, RUNNING, PAUSED, COMPLETED, ERROR, CANCELLED = AgentStatus

STATE_TRANSITIONS: Mapping[AgentStatus, tuple[AgentStatus, ...]] = {
    INITIALIZING: (RUNNING, WAITING_FOR_INPUT, WAITING_FOR_APPROVAL, PAUSED, COMPLETED, ERROR),
    RUNNING: (COMPLETED, ERROR, PAUSED, WAITING_FOR_INPUT, WAITING_FOR_APPROVAL),
    WAITING_FOR_INPUT: (RUNNING, WAITING_FOR_APPROVAL, PAUSED, COMPLETED, ERROR, WAITING_FOR_INPUT),
    WAITING_FOR_APPROVAL: (RUNNING, WAITING_FOR_INPUT, WAITING_FOR_APPROVAL, PAUSED, COMPLETED, CANCELLED, ERROR),
    PAUSED: (INITIALIZING, RUNNING, WAITING_FOR_INPUT, WAITING_FOR_APPROVAL, CANCELLED, ERROR),
    COMPLETED: (),
    ERROR: (CANCELLED,),
    CANCELLED: (),
}
"""Where each state may lead."""


Handler = Literal[
    "on_initializing",
    "on_waiting_for_input",
    "on_waiting_for_approval",
    "on_running",
    "on_paused",
    "on_error",
    "on_interrupted",
    "pause",
    "resume",
]
"""What is called on the view of an agent. The last three are not the user's to write."""


def is_before_approval(handler: Handler, status: AgentStatus, before: AgentStatus) -> bool:
    """True where a handler was not called with a person's answer to a question for approval, nor after one.

    Args:
        handler: what is called.
        status: in which it is called.
        before: what was paused, where that is PAUSED.
    """
    return handler != "on_waiting_for_approval" and (before if status is PAUSED else status) is not RUNNING


HANDLERS: Mapping[AgentStatus, Handler] = {
    INITIALIZING: "on_initializing",
    WAITING_FOR_INPUT: "on_waiting_for_input",
    WAITING_FOR_APPROVAL: "on_waiting_for_approval",
    RUNNING: "on_running",
    PAUSED: "on_paused",
    ERROR: "on_error",
}
"""Who is given a message in a state."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person said.

    Attributes:
        text: the words; of a secret, only a placeholder.
        by: who said it.
        at: when, seconds since the epoch; what "tomorrow" is counted from.
        inquiry_id: id of the inquiry it answers; empty if it answers none.
        verb: how it answers, where it was not said in words.
        values: fields given by name rather than in words.
        secret: where the owning process keeps what was said; a secret in it is nowhere else.
        confidential: all of it was the answer where a secret was asked for.
    """

    text: str = ""
    by: str = ""
    at: float = 0.0
    inquiry_id: str = ""
    verb: Verb = "respond"
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    secret: str = ""
    confidential: bool = False

    def get_text(self) -> str:
        """The words."""
        return self.text


class ConversationLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What bounds a conversation.

    Attributes:
        approval_s: how long a question for approval stays open; None for ever.
        idle_s: how long the conversation waits for its person; None for ever.
        wall_s: how long it may take in all; None for ever.
    """

    approval_s: float | None = None
    idle_s: float | None = None
    wall_s: float | None = None


# -- events ----------------------------------------------------------------------------------------


class ConversationStarted(Event, tag="conversation_started", frozen=True, kw_only=True):
    """A conversation begins.

    Attributes:
        agent: the class of the agent, as ``module:name``.
        message: what began it.
        tenant: whose it is; no other tenant ever sees it.
        fleet_file: where the devices that it may start constellations on can be opened again; empty for none.
        requires_approval: no handler leads to RUNNING before a person has answered a question for approval.
    """

    agent: str
    message: Message = Message()
    tenant: str = ""
    limits: ConversationLimits = ConversationLimits()
    fleet_file: str = ""
    requires_approval: bool = False


class MessageReceived(Event, tag="message_received", frozen=True, kw_only=True):
    """A person says something, in answer to no particular question or to one that is no longer open."""

    from_outside: ClassVar[bool] = True

    text: str = ""
    inquiry_id: str = ""
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    secret: str = ""
    confidential: bool = False


class ConversationRecalled(Event, tag="conversation_recalled", frozen=True, kw_only=True):
    """Its person has come back to it after talking to somebody else."""

    from_outside: ClassVar[bool] = True


class AgentView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a handler has left of the agent: all of it, in place of what was there.

    Attributes:
        fields: values of the input fields, as JSON.
        defaults: values that stand for those nobody has said; none of a secret field.
        secret_fields: names of the secret fields; no inbox takes a value of one.
        withheld_fields: those of them that have a value, which only the owning process knows.
        outputs: values of the output fields.
        metadata: sub-states, as the agent names them.
        flags: instance variables.
        asked_field: the field that was asked for last; empty if none.
        secret_expected: what is asked for is a secret.
        retries: answers in a row that could not be used.
    """

    fields: dict[str, Any] = msgspec.field(default_factory=dict)
    defaults: dict[str, Any] = msgspec.field(default_factory=dict)
    secret_fields: tuple[str, ...] = ()
    withheld_fields: tuple[str, ...] = ()
    outputs: dict[str, Any] = msgspec.field(default_factory=dict)
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    flags: dict[str, Any] = msgspec.field(default_factory=dict)
    asked_field: str = ""
    secret_expected: bool = False
    retries: int = 0

    @property
    def named(self) -> tuple[str, ...]:
        """Names of the fields that something is known of."""
        asked = (self.asked_field,) if self.asked_field else ()
        return tuple(dict.fromkeys((*self.fields, *self.defaults, *self.withheld_fields, *asked)))

    @property
    def shown(self) -> dict[str, Any]:
        """What a yes is asked for, and bound to: what was said, and the defaults of what was not."""
        return {**self.fields, **self.defaults}


class RunningEntered(Event, tag="running_entered", frozen=True, kw_only=True):
    """A handler is about to enter the body of ``on_running``; it does so when this is durable.

    Attributes:
        effect_id: id of the handler's effect.
        transitions: the transitions it has made so far; the last leads to RUNNING.
    """

    effect_id: str
    transitions: tuple[AgentStatus, ...] = ()
    view: AgentView = AgentView()


class HandlerEnded(EffectResult, tag="handler_ended", frozen=True, kw_only=True):
    """What a handler did.

    Attributes:
        transitions: the transitions it has made since it began, or since it entered ``on_running``.
        text: what it says to the person.
        view: what it has left of the agent; None leaves all as it was.
        data: what it returns besides the output fields.
        code, reason: what went wrong, in a word and in words for the person.
        interrupted: its process ended while ``on_running`` was under way; what came of it is not known.
        reenter: enter ``on_running`` once more.
        cancel: the person wants it cancelled.
    """

    transitions: tuple[AgentStatus, ...] = ()
    text: str = ""
    view: AgentView | None = None
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    code: str = ""
    reason: str = ""
    interrupted: bool = False
    reenter: bool = False
    cancel: bool = False


class HandlerReported(Event, tag="handler_reported", frozen=True, kw_only=True):
    """A handler says how far it is."""

    effect_id: str
    text: str


class ChildRequested(Event, tag="child_requested", frozen=True, kw_only=True):
    """A handler wants the child run of a key: started if there is none. Its end wakes the handler.

    Attributes:
        effect_id: id of the handler's effect.
        key: names it among the children of this conversation.
        start: how it begins.
        resumable: the handler may be ended while the child waits for people, and called again when it has ended.
    """

    effect_id: str
    key: str
    start: StartChild
    resumable: bool = False


class HandlerNotified(EffectResult, tag="handler_notified", frozen=True, kw_only=True):
    """A handler has the news."""


# -- effects ---------------------------------------------------------------------------------------


class CallHandler(Effect, tag="call_handler", frozen=True, kw_only=True):
    """Call a handler over a view of the agent.

    After a crash its request says how far it had come: a handler that had not entered ``on_running`` is called again;
    one that had is interrupted, unless the agent says that it may be entered again.
    """

    handler: Handler
    message: Message = Message()

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        """What a crash means for it."""
        return RecoveryPolicy.REATTACH

    @property
    def actor(self) -> str:
        """Who its outcome comes from."""
        return "agent"

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """Whether it finished is not known."""
        return HandlerEnded(effect_id=effect_id, interrupted=True, reason=why)


class NotifyHandler(Effect, tag="notify_handler", frozen=True, kw_only=True):
    """Give a handler the news it waits for, now that it is in the journal.

    Attributes:
        effect_id: id of the handler's effect.
        entered: it may enter the body of ``on_running``.
        cancel_requested: a cancel is wanted; it ends at the next chance.
        child_key: the child of this key has ended; empty for none.
    """

    effect_id: str
    entered: bool = False
    cancel_requested: bool = False
    child_key: str = ""

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """There was nobody to tell."""
        return HandlerNotified(effect_id=effect_id)
