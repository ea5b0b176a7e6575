"""The child runs of a conversation, one for each key."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from asterism.kernel.machine import StepContext
from asterism.machines.children import ChildBlocked, ChildEnded
from asterism.machines.flow_agent.events import ChildRequested, NotifyHandler
from asterism.machines.flow_agent.memory import ChildRun, FlowMemory
from asterism.machines.flow_agent.states import HandlerCalled, HandlerRunning


def child_requested(memory: FlowMemory, event: ChildRequested, context: StepContext) -> StrEnum | None:
    """Start the child of a key, if there is none.

    A child that has ended, or a requested cancel, is notified at once.
    """
    if event.effect_id != memory.handler_effect:
        return None
    if isinstance(memory.handler, HandlerCalled | HandlerRunning):
        memory.handler = msgspec.structs.replace(memory.handler, resumable=event.resumable)
    child = memory.children.get(event.key)
    if memory.requested_action == "cancel":
        context.schedule(NotifyHandler(effect_id=event.effect_id, cancel_requested=True))
    elif child is None:
        memory.children[event.key] = ChildRun(effect_id=context.schedule(event.start))
    elif child.ended:
        context.schedule(NotifyHandler(effect_id=event.effect_id, child_key=event.key))
    return context.state


def child_blocked(memory: FlowMemory, event: ChildBlocked, context: StepContext) -> StrEnum | None:
    """Record if a child is blocked, and with it a resumable handler that waits for it."""
    child = memory.child_of(event.effect_id)
    if child is None or child.ended or event.blocked == (event.effect_id in memory.blocked_children):
        return None
    handler = memory.handler
    waiting = (
        {event.effect_id, handler.effect_id}
        if isinstance(handler, HandlerCalled | HandlerRunning) and handler.resumable
        else {event.effect_id}
    )
    memory.blocked_children = memory.blocked_children | waiting if event.blocked else memory.blocked_children - waiting
    return context.state


def child_ended(memory: FlowMemory, event: ChildEnded, context: StepContext) -> StrEnum:
    """Record the end of a child and notify the handler, which may wait for it."""
    key = next((key for key, child in memory.children.items() if child.effect_id == event.effect_id), None)
    if key is not None:
        memory.children[key].ended = event
    memory.blocked_children -= {event.effect_id, memory.handler_effect}
    if key is not None and memory.handler_effect:
        context.schedule(
            NotifyHandler(effect_id=memory.handler_effect, child_key=key, cancel_requested=memory.requested_action == "cancel")
        )
    return context.state


def leave_children(memory: FlowMemory) -> None:
    """Drop the children of the original run from a fork, which starts its own."""
    for key, child in tuple(memory.children.items()):
        if child.ended is None:
            del memory.children[key]
