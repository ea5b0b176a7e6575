"""The child runs of a conversation: one for each key, whoever asks for it again; told what goes down, and heard when they end."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from asterism.kernel.machine import Turn
from asterism.machines.children import ChildEnded, ChildRested
from asterism.machines.flow_agent.events import ChildWanted, Wake
from asterism.machines.flow_agent.memory import ChildRun, FlowMemory
from asterism.machines.flow_agent.states import Acting, Called


def child_wanted(memory: FlowMemory, event: ChildWanted, turn: Turn) -> StrEnum | None:
    """Start the child of a key, unless there is one; wake the handler at once where it has ended, or where a cancel is wanted."""
    if event.of != memory.handling:
        return None
    if isinstance(memory.handler, Called | Acting):
        memory.handler = msgspec.structs.replace(memory.handler, resumable=event.resumable)
    child = memory.children.get(event.key)
    if memory.wants == "cancel":
        turn.perform(Wake(of=event.of, cancel_requested=True))
    elif child is None:
        memory.children[event.key] = ChildRun(effect=turn.perform(event.start))
    elif child.ended:
        turn.perform(Wake(of=event.of, key=event.key))
    return turn.state


def child_rested(memory: FlowMemory, event: ChildRested, turn: Turn) -> StrEnum | None:
    """Note that a child rests; the handler that waits for it rests too, if it may be called again."""
    child = memory.child_of(event.of)
    if child is None or child.ended or event.resting == (event.of in memory.resting):
        return None
    handler = memory.handler
    waiting = {event.of, handler.effect} if isinstance(handler, Called | Acting) and handler.resumable else {event.of}
    memory.resting = memory.resting | waiting if event.resting else memory.resting - waiting
    return turn.state


def child_ended(memory: FlowMemory, event: ChildEnded, turn: Turn) -> StrEnum:
    """Keep how a child has ended, and wake the handler that may wait for it."""
    key = next((key for key, child in memory.children.items() if child.effect == event.effect), None)
    if key is not None:
        memory.children[key].ended = event
    memory.resting -= {event.effect, memory.handling}
    if key is not None and memory.handling:
        turn.perform(Wake(of=memory.handling, key=key, cancel_requested=memory.wants == "cancel"))
    return turn.state


def leave_children(memory: FlowMemory) -> None:
    """Forget children that are another run's: this one was copied from it, and starts its own when it is asked for them."""
    for key, child in tuple(memory.children.items()):
        if child.ended is None:
            del memory.children[key]
