"""The requests of the flow agent's effects: to call a handler and to notify it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from asterism.conversation.machine.events import RUNNING, AgentStatus, AgentView, CallHandler, Handler, Message, NotifyHandler
from asterism.conversation.machine.memory import FlowMemory, HandlerRunning
from asterism.engine.control.children import ChildEnded, StartChild
from asterism.engine.kernel.machine import Effect, RequestFactory
from asterism.engine.kernel.phrase import Text
from asterism.engine.kernel.run import Run


class HandlerCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a handler. After a crash it also has the progress of that handler.

    Attributes:
        agent, declared, requires_approval: as in ``ConversationStarted``.
        handler, message: handler and message; ``on_running`` if the handler had entered it.
        status, view, prompt: the agent as journaled; RUNNING if ``entered``.
        before, before_prompt: the paused state, and the agent's message in it.
        approved: values of the approval that still holds; None without one.
        entered: True if the handler had entered the body of ``on_running``, or was about to.
        entering: True if some transitions that lead there have no entry yet; a notification
            follows.
        started: starts of the conversation's children, by key.
        ended: ends of those that have ended, by key.
        language, time_zone: how messages are read; empty for those of the agent's class.
    """

    agent: str
    handler: Handler
    declared: dict[str, str] = msgspec.field(default_factory=dict)
    requires_approval: bool = False
    message: Message = Message()
    status: AgentStatus = AgentStatus.INITIALIZING
    view: AgentView = AgentView()
    prompt: Text = ""
    before: AgentStatus = AgentStatus.INITIALIZING
    before_prompt: Text = ""
    approved: dict[str, Any] | None = None
    entered: bool = False
    entering: bool = False
    cancel_requested: bool = False
    started: dict[str, StartChild] = msgspec.field(default_factory=dict)
    ended: dict[str, ChildEnded] = msgspec.field(default_factory=dict)
    language: str = ""
    time_zone: str = ""


class HandlerNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification of a handler.

    Attributes:
        effect: the effect with the event to notify of.
        ended: the end of the child of its key; None if it concerns no child.
    """

    effect: NotifyHandler
    ended: ChildEnded | None = None


def _handler_call(run: Run[FlowMemory], effect_id: str, effect: CallHandler) -> HandlerCall:
    memory = run.memory
    entered = isinstance(memory.handler, HandlerRunning)
    return HandlerCall(
        agent=memory.agent,
        declared=memory.declared,
        requires_approval=memory.requires_approval,
        handler="on_running" if entered else effect.handler,
        message=memory.message if entered else effect.message,
        status=RUNNING if entered else AgentStatus(run.state),
        view=memory.view,
        prompt=memory.prompt,
        before=memory.before,
        before_prompt=memory.before_prompt,
        approved=memory.approved if run.state == AgentStatus.WAITING_FOR_INPUT else None,
        entered=entered,
        entering=entered and bool(memory.transitions),
        cancel_requested=memory.requested_action == "cancel",
        started={key: child.start for key, child in memory.children.items()},
        ended={key: child.ended for key, child in memory.children.items() if child.ended},
        language=memory.language,
        time_zone=memory.time_zone,
    )


def _notification(run: Run[FlowMemory], effect_id: str, effect: NotifyHandler) -> HandlerNotification:
    child = run.memory.children.get(effect.child_key)
    return HandlerNotification(effect=effect, ended=child.ended if child else None)


REQUESTS: Mapping[type[Effect], RequestFactory] = {
    CallHandler: RequestFactory(_handler_call),
    NotifyHandler: RequestFactory(_notification),
}
"""The request factories of its effects."""
