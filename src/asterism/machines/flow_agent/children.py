"""The child runs of a conversation: one for each key, whoever asks for it again; told what goes down, and heard when they end."""

from __future__ import annotations

from asterism.kernel.machine import Event, Row, Turn, row
from asterism.machines.children import ChildEnded, ChildRested, Relayed
from asterism.machines.control import Withdraw
from asterism.machines.flow_agent.events import AgentStatus, ChildWanted, Wake
from asterism.machines.flow_agent.memory import ChildRun, FlowMemory


def child_rows(state: AgentStatus) -> dict[type[Event], Row]:
    """Internal rows of a state that tell of child runs."""

    def wanted(memory: FlowMemory, event: ChildWanted, turn: Turn) -> AgentStatus | None:
        if event.of != memory.handling:
            return None
        memory.resumable = event.resumable
        child = memory.children.get(event.key)
        if memory.wants == "cancel":
            turn.perform(Wake(of=event.of, cancel_requested=True))
        elif child is None:
            memory.children[event.key] = ChildRun(effect=turn.perform(event.start))
        elif child.ended:
            turn.perform(Wake(of=event.of, key=event.key))
        return state

    def rested(memory: FlowMemory, event: ChildRested, turn: Turn) -> AgentStatus | None:
        child = memory.child_of(event.of)
        if child is None or child.ended or event.resting == (event.of in memory.resting):
            return None
        waiting = {event.of, memory.handling} if memory.resumable and memory.handling else {event.of}
        memory.resting = memory.resting | waiting if event.resting else memory.resting - waiting
        return state

    def ended(memory: FlowMemory, event: ChildEnded, turn: Turn) -> AgentStatus:
        key = next((key for key, child in memory.children.items() if child.effect == event.effect), None)
        if key is not None:
            memory.children[key].ended = event
        memory.resting -= {event.effect, memory.handling}
        if key is not None and memory.handling:
            turn.perform(Wake(of=memory.handling, key=key, cancel_requested=memory.wants == "cancel"))
        return state

    def relayed(memory: FlowMemory, event: Relayed, turn: Turn) -> AgentStatus:
        return state

    return {ChildWanted: row(wanted), ChildRested: row(rested), ChildEnded: row(ended), Relayed: row(relayed)}


def leave_children(memory: FlowMemory, turn: Turn) -> None:
    """Call off children that are another run's: this one was copied from it, and starts its own when it is asked for them."""
    for key, child in tuple(memory.children.items()):
        if child.ended is None:
            turn.perform(Withdraw(target=child.effect))
            del memory.children[key]
    memory.resting = set()
