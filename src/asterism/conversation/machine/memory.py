"""The memory of a conversation, as plain data. Only the moves of the table write it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from asterism.conversation.machine.events import AgentStatus, AgentView, ConversationLimits, Handler, Message
from asterism.engine.control.children import ChildEnded, StartChild
from asterism.engine.control.run_control import RunMemory
from asterism.engine.kernel.phrase import Text

HISTORY = 50
"""Number of utterances in the memory; the journal has all of them."""
MAX_QUEUED = 100
"""Number of messages that may wait while a handler runs."""


class Utterance(msgspec.Struct, frozen=True):
    """A message of a person, or of the agent (``by`` is ``agent``)."""

    by: str
    text: Text


class NoHandler(msgspec.Struct, frozen=True, tag=True):
    """No handler runs."""


class _Called(msgspec.Struct, frozen=True, kw_only=True):
    """A handler runs.

    Attributes:
        effect_id: id of the effect that calls it.
        resumable: True if it may end while its child waits for people, and be called again.
    """

    effect_id: str
    handler: Handler
    resumable: bool = False


class HandlerCalled(_Called, frozen=True, kw_only=True, tag=True):
    """A handler runs that has not entered the body of ``on_running``."""


class HandlerRunning(_Called, frozen=True, kw_only=True, tag=True):
    """A handler has entered the body of ``on_running``, or waits until its way there is journaled."""


HandlerState = NoHandler | HandlerCalled | HandlerRunning
"""The handler of a conversation.

NoHandler ──► HandlerCalled ──► HandlerRunning    it has entered the body of ``on_running``,
  ▲               │                  │            or transitions there are being journaled
  └───────────────┴──────────────────┘            it has ended, or was cancelled
"""

LastRunning = Literal["none", "ended", "interrupted", "again"]
"""The last call of ``on_running`` in this stay in RUNNING: ``none`` yet; ``ended``;
``interrupted``, and a person must say what happened; ``again``, to be entered once more."""


class ChildRun(msgspec.Struct, kw_only=True):
    """A child run of a conversation.

    Attributes:
        effect_id: id of the effect that started it.
        start: that effect.
        ended: its end; None before.
    """

    effect_id: str
    start: StartChild
    ended: ChildEnded | None = None


class FlowMemory(RunMemory, kw_only=True):
    """The memory of one conversation.

    Attributes:
        agent, tenant, limits, requires_approval, declared, language, time_zone: as in ``ConversationStarted``.
        given: names of the fields that came with the request; None before the first handler has ended.
        view: state of the agent that the last handler left.
        approved: values of the approval under which the agent entered RUNNING; None without one.
        was_approved: True if a person has approved that it enters RUNNING, or does so again after an interruption.
        history: the last ``HISTORY`` utterances.
        utterances: number of utterances in all.
        queue: messages that no handler has received.
        held: those that came before the conversation was paused; they are handled when it is resumed.
        last_running: last call of ``on_running``.
        message: last message that a handler received in the course of the conversation.
        transitions: transitions of a handler that have no entry yet.
        requested_action, requested_by: pause, resume or cancel requested while a handler ran,
            carried out after it; who requested it, and why.
        before, before_prompt: the state in which the agent was paused, and its message in that state.
        last_question: id of the last question to the person since a handler was called; empty without
            one. A queued message is its answer only if it names this id.
        error_reported: True if ``on_error`` was called.
        prompt: the agent's last message.
        data: the data that the agent returned, without the output fields.
        ends_at: time of the wall limit, in seconds since the epoch; None for no limit.
        blocked_children: also has the handler's effect while the handler waits for a blocked child
            and may be called again.
    """

    answered_by_submitter: ClassVar[bool] = True
    verbs_checked: ClassVar[int] = 2

    agent: str = ""
    tenant: str = ""
    limits: ConversationLimits = ConversationLimits()
    requires_approval: bool = False
    given: tuple[str, ...] | None = None
    declared: dict[str, str] = msgspec.field(default_factory=dict)
    language: str = ""
    time_zone: str = ""
    view: AgentView = AgentView()
    approved: dict[str, Any] | None = None
    was_approved: bool = False
    history: list[Utterance] = msgspec.field(default_factory=list)
    utterances: int = 0
    queue: list[Message] = msgspec.field(default_factory=list)
    held: list[Message] = msgspec.field(default_factory=list)
    handler: HandlerState = NoHandler()
    last_running: LastRunning = "none"
    last_question: str = ""
    message: Message = Message()
    transitions: list[AgentStatus] = msgspec.field(default_factory=list)
    requested_action: Literal["", "pause", "resume", "cancel"] = ""
    requested_by: Text = ""
    before: AgentStatus = AgentStatus.INITIALIZING
    before_prompt: Text = ""
    children: dict[str, ChildRun] = msgspec.field(default_factory=dict)
    error_reported: bool = False
    prompt: Text = ""
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    ends_at: float | None = None

    @property
    def handler_effect(self) -> str:
        """Return the id of the effect that calls the handler; empty while none runs."""
        return "" if isinstance(self.handler, NoHandler) else self.handler.effect_id

    @property
    def open_question(self) -> str:
        """Return the id of the open question to the person; empty without one."""
        return self.last_question if self.last_question in self.inquiries else ""

    @property
    def interrupted(self) -> bool:
        """Return True if ``on_running`` was interrupted, and a person must say what happened."""
        return self.last_running == "interrupted"

    def wake_at(self) -> float | None:
        """Return the epoch seconds of the wall limit; 0 with pending transitions."""
        return 0.0 if self.transitions else self.ends_at

    def inquiry_limit_s(self, kind: str) -> float | None:
        """Return the seconds after which a question expires; None for never."""
        limits = (self.limits.idle_s, self.limits.approval_s if kind == "approval" else None)
        return min((limit for limit in limits if limit is not None), default=None)

    def has_pending_work(self) -> bool:
        """Return True while transitions are pending; otherwise only the person moves it on."""
        return bool(self.transitions)

    def outcome(self) -> str:
        """Return ``finished``, ``failed`` or ``cancelled``; empty while the run has not ended."""
        return "cancelled" if self.code in ("rejected", "expired") else super().outcome()

    def report(self) -> dict[str, Any]:
        """Return ``text``, the output fields and the return value, and ``failure_info``."""
        return {"text": str(self.prompt), **self.view.outputs, **self.data, **self.failure_info()}

    def result(self) -> dict[str, Any]:
        """Return the result for the user; ``summary`` is the agent's last message."""
        return {"summary": str(self.prompt), "data": {**self.view.outputs, **self.data}, **self.failure_info()}

    def live_children(self) -> list[str]:
        """Return the ids of the effects whose child run has not ended."""
        return [child.effect_id for child in self.children.values() if child.ended is None]

    def child_of(self, effect_id: str) -> ChildRun | None:
        """Return the child that an effect started; None if there is none."""
        return next((child for child in self.children.values() if child.effect_id == effect_id), None)

    def remember(self, by: str, text: Text) -> None:
        """Add a message to the history."""
        if text:
            self.history = [*self.history, Utterance(by, text)][-HISTORY:]
            self.utterances += 1
