"""The eight states of a flow agent with their transitions, its events and its effects.

The states and ``STATE_TRANSITIONS`` are public and never change. Handlers move a conversation only
through ``RunningEntered`` and ``HandlerEnded``, which record as data what a handler did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal

import msgspec

from asterism.engine.control.children import StartChild
from asterism.engine.control.run_control import Verb
from asterism.engine.kernel.guards import Guards
from asterism.engine.kernel.machine import Effect, EffectResult, Event, Needs, RecoveryPolicy, StartRequest
from asterism.engine.kernel.phrase import Text


class AgentStatus(StrEnum):
    """The eight states of a conversation. They are fixed; sub-states are in its metadata."""

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
"""The states that each state may lead to."""


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
"""Names of the handlers, which are called on an agent. Users do not write the last three."""


def is_before_approval(handler: Handler, status: AgentStatus, before: AgentStatus) -> bool:
    """Return True if a handler runs before a person has answered a question for approval.

    Args:
        handler: name of the handler.
        status: state in which it is called.
        before: the state in which the conversation was paused, if ``status`` is PAUSED.
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
"""The handler that receives a message in each state."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message from a person.

    Attributes:
        text: the words; a secret is replaced by a placeholder.
        by: name of the person.
        at: seconds since the epoch; relative dates such as "tomorrow" start here.
        inquiry_id: id of the inquiry that it answers; empty if it answers none.
        verb: kind of the answer, if not given in words.
        values: fields given by name rather than in words.
        secret: key under which the owning process holds the original text; a secret in it is
            nowhere else.
        confidential: True if the whole message answers a question for a secret.
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
        """Return the words."""
        return self.text


class ConversationLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The time limits of a conversation.

    Attributes:
        approval_s: seconds that a question for approval stays open; None for no limit.
        idle_s: seconds that the conversation waits for its person; None for no limit.
        wall_s: seconds that it may take in all; None for no limit.
    """

    approval_s: float | None = None
    idle_s: float | None = None
    wall_s: float | None = None


# -- events ----------------------------------------------------------------------------------------


class ConversationStarted(Event, tag="conversation_started", frozen=True, kw_only=True):
    """A conversation begins: the first event of a run.

    Attributes:
        agent: the class of the agent, as ``module:name``.
        tenant: owner of the conversation; other tenants never see it.
        fleet_file: file from which devices are opened for the constellations it starts; empty for
            none.
        requires_approval: True if a person must answer a question for approval before any handler
            enters RUNNING.
        declared: types of the agent's fields in words, by name.
        language, time_zone: how messages are read; empty for those of the agent's class.
        guards: its guards.
    """

    agent: str
    message: Message = Message()
    tenant: str = ""
    limits: ConversationLimits = ConversationLimits()
    fleet_file: str = ""
    requires_approval: bool = False
    declared: dict[str, str] = msgspec.field(default_factory=dict)
    language: str = ""
    time_zone: str = ""
    guards: Guards = Guards()

    def needs(self) -> Needs:
        """Return the devices of the constellations that it starts."""
        return Needs(fleet_file=self.fleet_file)


class MessageReceived(Event, tag="message_received", frozen=True, kw_only=True):
    """A message from a person that is not sent as an answer, such as a secret.

    ``inquiry_id`` is the question that was open or shown last, if any, and ``digest`` that of its subject as shown.
    """

    from_outside: ClassVar[bool] = True

    text: str = ""
    inquiry_id: str = ""
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    secret: str = ""
    confidential: bool = False
    digest: str = ""


class ConversationRecalled(Event, tag="conversation_recalled", frozen=True, kw_only=True):
    """The person has returned to this conversation from another one."""

    from_outside: ClassVar[bool] = True


class AgentView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The whole state of the agent that a handler left; it replaces the previous one.

    Attributes:
        fields: values of the input fields, as JSON.
        defaults: values of fields that nobody has given; never of a secret field.
        secret_fields: names of the secret fields, whose values no inbox accepts.
        withheld_fields: secret fields that have a value, which only the owning process knows.
        secret_ends: last characters of these values that people may see, by field.
        secrets_changed: True if one of these values was given, changed or lost since the last handler.
        outputs: values of the output fields.
        metadata: sub-states, as the agent names them.
        flags: instance variables.
        asked_field: the field that was last asked for; empty if none.
        secret_expected: True if the agent asks for a secret.
        retries: number of consecutive unusable answers.
        pending: values that were guessed, by field; they count when the person confirms them.
        readings: how the values of fields were read from words, by field: the words, the language,
            the time zone and the time.
    """

    fields: dict[str, Any] = msgspec.field(default_factory=dict)
    defaults: dict[str, Any] = msgspec.field(default_factory=dict)
    secret_fields: tuple[str, ...] = ()
    withheld_fields: tuple[str, ...] = ()
    secret_ends: dict[str, str] = msgspec.field(default_factory=dict)
    secrets_changed: bool = False
    outputs: dict[str, Any] = msgspec.field(default_factory=dict)
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    flags: dict[str, Any] = msgspec.field(default_factory=dict)
    asked_field: str = ""
    secret_expected: bool = False
    retries: int = 0
    pending: dict[str, Any] = msgspec.field(default_factory=dict)
    readings: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)

    @property
    def named(self) -> tuple[str, ...]:
        """Return the names of the fields with a value, and of the one asked for."""
        asked = (self.asked_field,) if self.asked_field else ()
        return tuple(dict.fromkeys((*self.fields, *self.defaults, *self.withheld_fields, *asked)))

    @property
    def shown(self) -> dict[str, Any]:
        """Return the values that an approval is bound to: given ones and defaults."""
        return {**self.fields, **self.defaults}


class RunningEntered(Event, tag="running_entered", frozen=True, kw_only=True):
    """A handler is about to enter the body of ``on_running``, once this event is durable.

    Attributes:
        effect_id: id of the handler's effect.
        transitions: transitions that it has made so far; the last one leads to RUNNING.
    """

    effect_id: str
    transitions: tuple[AgentStatus, ...] = ()
    view: AgentView = AgentView()


class HandlerEnded(EffectResult, tag="handler_ended", frozen=True, kw_only=True):
    """The result of a handler.

    Attributes:
        transitions: transitions it has made since it began, or since it entered ``on_running``.
        text: its message to the person.
        view: state of the agent; None if unchanged.
        data: its return value apart from the output fields.
        code, reason: error, as a code and as the text or phrase of the reason.
        interrupted: True if its process ended during ``on_running``, which may have finished or
            not.
        reenter: True to enter ``on_running`` once more.
    """

    transitions: tuple[AgentStatus, ...] = ()
    text: str = ""
    view: AgentView | None = None
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    code: str = ""
    reason: Text = ""
    interrupted: bool = False
    reenter: bool = False
    cancel: bool = False


class HandlerReported(Event, tag="handler_reported", frozen=True, kw_only=True):
    """A handler reports its progress."""

    effect_id: str
    text: str


class ChildRequested(Event, tag="child_requested", frozen=True, kw_only=True):
    """A handler needs the child run of a key, which is started if there is none.

    The handler is notified of its end.

    Attributes:
        effect_id: id of the handler's effect.
        key: name of the child, unique within the conversation.
        start: the effect that starts it.
        resumable: True if the handler may end while the child waits for people, and be called again
            afterwards.
    """

    effect_id: str
    key: str
    start: StartChild
    resumable: bool = False


class HandlerNotified(EffectResult, tag="handler_notified", frozen=True, kw_only=True):
    """The handler has received a notification."""


# -- effects ---------------------------------------------------------------------------------------


class CallHandler(Effect, tag="call_handler", frozen=True, kw_only=True):
    """Call a handler with the state of the agent.

    After a crash, a handler without a ``RunningEntered`` in the journal is called again. One with it
    counts as having acted: it is interrupted, unless the agent is ``idempotent`` or ``resumable``.
    """

    logged_as: ClassVar[Callable[[Any], tuple[str, int]] | None] = lambda call: (call.handler, 1)

    actor: ClassVar[str] = "agent"
    recovery_policy: ClassVar[RecoveryPolicy] = RecoveryPolicy.REATTACH  # the request has the progress of the handler

    handler: Handler
    message: Message = Message()

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return an interrupted end: the handler may have finished or not."""
        return HandlerEnded(effect_id=effect_id, interrupted=True, reason=why)


class NotifyHandler(Effect, tag="notify_handler", frozen=True, kw_only=True):
    """Notify a handler of an event that it waits for, now that the event is in the journal.

    Attributes:
        effect_id: id of the handler's effect.
        entered: True if it may enter the body of ``on_running``.
        cancel_requested: True if it should end because of a cancel.
        child_key: key of a child that has ended; empty for none.
    """

    effect_id: str
    entered: bool = False
    cancel_requested: bool = False
    child_key: str = ""

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return a notification that no handler received."""
        return HandlerNotified(effect_id=effect_id)


# -- start by another run --------------------------------------------------------------------------


class FlowDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Everything of a conversation that is known before its request and inputs.

    Attributes:
        agent: the class of the agent, as ``module:name``.
        requires_approval, declared: as in ``ConversationStarted``.
    """

    agent: str
    limits: ConversationLimits = ConversationLimits()
    requires_approval: bool = False
    declared: dict[str, str] = msgspec.field(default_factory=dict)


def first_event(start: StartRequest) -> ConversationStarted:
    """Return the event that begins the run: the request is its message, the inputs are fields.

    Raises:
        InvalidInput: the definition of the request is not a ``FlowDefinition``.
    """
    defined = start.defined_as(FlowDefinition)
    own_s = defined.limits.wall_s
    limit_s = start.budget_s if own_s is None else start.limit_s(own_s)
    return ConversationStarted(
        agent=defined.agent,
        message=Message(text=start.request, values=start.inputs),
        limits=msgspec.structs.replace(defined.limits, wall_s=limit_s),
        fleet_file=start.fleet_file,
        requires_approval=defined.requires_approval,
        declared=defined.declared,
        guards=start.guards,
    )
