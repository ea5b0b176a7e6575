"""What a conversation remembers. Plain data; only the moves of the table write it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from asterism.machines.children import ChildEnded
from asterism.machines.flow_agent.events import AgentStatus, AgentView, ConversationLimits, Message
from asterism.machines.flow_agent.states import HandlerState, LastRunning, NoHandler, NoQuestion, QuestionOpen, QuestionState
from asterism.machines.run_control import RunMemory

HISTORY = 50
"""Utterances that are remembered; the journal has all of them."""
MAX_QUEUED = 100
"""Messages that may wait while a handler runs."""


class Utterance(msgspec.Struct, frozen=True):
    """Something that was said, and by whom; ``agent`` for the agent itself."""

    by: str
    text: str


class ChildRun(msgspec.Struct, kw_only=True):
    """A child run, as far as its conversation knows.

    Attributes:
        effect_id: id of the effect that started it.
        ended: how it ended; None while it has not.
    """

    effect_id: str
    ended: ChildEnded | None = None


class FlowMemory(RunMemory, kw_only=True):
    """The memory of one conversation.

    Attributes:
        agent, tenant, limits, requires_approval: as it began.
        view: what handlers have left of the agent.
        history: what was said, the last ``HISTORY`` of it.
        utterances: how many utterances there were in all.
        queue: messages that no handler has been given.
        handler: what the handler is doing.
        last_running: what came of ``on_running``.
        message: what a handler was given last; not what was given beside the conversation.
        transitions: transitions a handler has made that have no entry yet.
        question: what the person is asked.
        ends_at: when its time is up; None for never.
        requested_action: what was asked for while a handler ran; done at its next chance. ``wanted_by`` says by whom and why.
        before: the state that was paused, and ``before_prompt`` what the agent had said in it.
        children: child runs, by key.
        resting: the handler's effect, too, while its child rests, if it may be called again.
        error_reported: ``on_error`` was called.
        prompt: what the agent has said last.
        data: what it has returned besides its output fields.
    """

    agent: str = ""
    tenant: str = ""
    limits: ConversationLimits = ConversationLimits()
    requires_approval: bool = False
    view: AgentView = AgentView()
    history: list[Utterance] = msgspec.field(default_factory=list)
    utterances: int = 0
    queue: list[Message] = msgspec.field(default_factory=list)
    handler: HandlerState = NoHandler()
    last_running: LastRunning = "none"
    question: QuestionState = NoQuestion()
    message: Message = Message()
    transitions: list[AgentStatus] = msgspec.field(default_factory=list)
    requested_action: Literal["", "pause", "resume", "cancel"] = ""
    requested_by: str = ""
    before: AgentStatus = AgentStatus.INITIALIZING
    before_prompt: str = ""
    children: dict[str, ChildRun] = msgspec.field(default_factory=dict)
    error_reported: bool = False
    prompt: str = ""
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    ends_at: float | None = None

    @property
    def handler_effect(self) -> str:
        """Id of the effect that calls a handler; empty while none runs."""
        return "" if isinstance(self.handler, NoHandler) else self.handler.effect_id

    @property
    def open_question(self) -> str:
        """Id of the open question to the person; empty while there is none."""
        return self.question.inquiry_id if isinstance(self.question, QuestionOpen) else ""

    @property
    def last_question(self) -> str:
        """Id of the last question that was put, open or not; empty where none was put since a handler was called."""
        return "" if isinstance(self.question, NoQuestion) else self.question.inquiry_id

    @property
    def interrupted(self) -> bool:
        """True where ``on_running`` was interrupted, and a person is to say what came of it."""
        return self.last_running == "interrupted"

    def wake_at(self) -> float | None:
        """When the open question expires or its time is up, seconds since the epoch; at once where transitions wait for their entries."""
        expires_at = self.question.expires_at if isinstance(self.question, QuestionOpen) else None
        return 0.0 if self.transitions else min((at for at in (expires_at, self.ends_at) if at is not None), default=None)

    def has_pending_work(self) -> bool:
        """True while transitions wait for their entries; else only its person moves it on."""
        return bool(self.transitions)

    def outcome(self) -> str:
        """How it ended: ``finished``, ``failed`` or ``cancelled``; empty while it has not."""
        return "cancelled" if self.code in ("rejected", "expired") else super().outcome()

    def report(self) -> dict[str, Any]:
        """What came of it: ``text``, the output fields and what it returned; ``code`` and ``reason`` where it did not finish."""
        return {"text": self.prompt, **self.view.outputs, **self.data, **self.failure_info()}

    def result(self) -> dict[str, Any]:
        """The result for the user: ``summary`` is what it said last; with code and reason where it did not finish."""
        return {"summary": self.prompt, "data": {**self.view.outputs, **self.data}, **self.failure_info()}

    def live_children(self) -> list[str]:
        """Effects whose child run has not ended."""
        return [child.effect_id for child in self.children.values() if child.ended is None]

    def child_of(self, effect_id: str) -> ChildRun | None:
        """The child that an effect started."""
        return next((child for child in self.children.values() if child.effect_id == effect_id), None)

    def remember(self, by: str, text: str) -> None:
        """Remember what was said."""
        if text:
            self.history = [*self.history, Utterance(by, text)][-HISTORY:]
            self.utterances += 1
