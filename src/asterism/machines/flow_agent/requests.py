"""What handlers and their wakes are given: the requests of the flow agent's effects. Pure; made from a run as it stands."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from asterism.kernel.machine import Effect, RequestFactory
from asterism.kernel.run import Run
from asterism.machines.children import ChildEnded
from asterism.machines.flow_agent.events import RUNNING, AgentStatus, AgentView, CallHandler, Handler, Message, NotifyHandler
from asterism.machines.flow_agent.memory import FlowMemory
from asterism.machines.flow_agent.states import HandlerRunning


class HandlerCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a handler. After a crash it says how far that handler had come.

    Attributes:
        agent: the class of the agent, as ``module:name``.
        handler, message: what is called with what; ``on_running`` where the handler had entered it.
        status, view, prompt: the agent as the journal has it; RUNNING where ``entered``.
        before, before_prompt: what was paused.
        entered: the handler had entered the body of ``on_running``, or was about to.
        entering: some transitions of its way there have no entry yet; it is woken when they have.
        cancel_requested: a cancel is wanted.
        ended: how children of the conversation have ended, by their keys.
    """

    agent: str
    handler: Handler
    message: Message = Message()
    status: AgentStatus = AgentStatus.INITIALIZING
    view: AgentView = AgentView()
    prompt: str = ""
    before: AgentStatus = AgentStatus.INITIALIZING
    before_prompt: str = ""
    entered: bool = False
    entering: bool = False
    cancel_requested: bool = False
    ended: dict[str, ChildEnded] = msgspec.field(default_factory=dict)


class HandlerNotification(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler is woken for.

    Attributes:
        effect: see there.
        ended: how the child of its key has ended; None where it is about no child.
    """

    effect: NotifyHandler
    ended: ChildEnded | None = None


def _handler_call(run: Run[FlowMemory], effect_id: str, effect: CallHandler) -> HandlerCall:
    memory = run.memory
    entered = isinstance(memory.handler, HandlerRunning)
    return HandlerCall(
        agent=memory.agent,
        handler="on_running" if entered else effect.handler,
        message=memory.message if entered else effect.message,
        status=RUNNING if entered else AgentStatus(run.state),
        view=memory.view,
        prompt=memory.prompt,
        before=memory.before,
        before_prompt=memory.before_prompt,
        entered=entered,
        entering=entered and bool(memory.transitions),
        cancel_requested=memory.requested_action == "cancel",
        ended={key: child.ended for key, child in memory.children.items() if child.ended},
    )


def _news(run: Run[FlowMemory], effect_id: str, effect: NotifyHandler) -> HandlerNotification:
    child = run.memory.children.get(effect.child_key)
    return HandlerNotification(effect=effect, ended=child.ended if child else None)


REQUESTS: Mapping[type[Effect], RequestFactory] = {CallHandler: RequestFactory(_handler_call), NotifyHandler: RequestFactory(_news)}
"""How the requests of its effects are made."""
