"""The flow agent's table: ``STATE_TRANSITIONS``, literally.

Only user code chooses where a conversation goes (``Entered``, ``Handled``), and only where ``STATE_TRANSITIONS`` leads; a handler
that makes several transitions leaves the later ones to ``Drained``, so each has an entry. What a person wants while a handler
runs waits for it. A cancel where the table has no edge to CANCELLED goes through PAUSED, which calls no handler.
"""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.errors import Refused
from asterism.kernel.machine import Event, Machine, Row, Turn, row
from asterism.machines.children import Relay, StartChild, tell_children
from asterism.machines.control import Answered, Ask, Broke, Cancel, Claimed, Drained, Forked, Pause, Unpause, Withdraw, Withdrawn, not_asked
from asterism.machines.flow_agent.children import child_rows, leave_children
from asterism.machines.flow_agent.events import (
    CANCELLED,
    COMPLETED,
    ERROR,
    INITIALIZING,
    PAUSED,
    STATE_TRANSITIONS,
    AgentStatus,
    Begun,
    Entered,
    Handle,
    Handled,
    Message,
    Recalled,
    Reported,
    Said,
    Wake,
    Woken,
)
from asterism.machines.flow_agent.memory import FlowMemory
from asterism.machines.flow_agent.moves import ASIDE, answer, arrive, begin, check_path, hear, leave, look, step_on, take_in, want_cancel
from asterism.machines.flow_agent.requests import REQUESTS


def _handler_rows(state: AgentStatus) -> dict[type[Event], Row]:
    """What handlers did: the rows by which user code moves a conversation."""
    targets = STATE_TRANSITIONS[state]

    def entered(memory: FlowMemory, event: Entered, turn: Turn) -> AgentStatus | None:
        if event.of != memory.handling:
            return None
        check_path(state, event.path)
        if memory.wants == "cancel":  # it is ended where it waits to enter
            turn.perform(Wake(of=event.of, cancel_requested=True))
            return state
        memory.view, memory.entered, memory.path, memory.unclear = event.view, True, [*event.path], False
        return step_on(memory, state, turn)

    def handled(memory: FlowMemory, event: Handled, turn: Turn) -> AgentStatus:
        if event.effect != memory.handling:
            return state  # it was called off
        check_path(state, event.path)
        take_in(memory, event)
        return step_on(memory, state, turn)

    def reported(memory: FlowMemory, event: Reported, turn: Turn) -> AgentStatus | None:
        return state if event.of == memory.handling else None

    def broke(memory: FlowMemory, event: Broke, turn: Turn) -> AgentStatus:
        if event.effect == memory.handling:
            memory.handling = ""
        elif memory.handling:  # what it waits for may be what could not be taken
            turn.perform(Withdraw(target=memory.handling))
            memory.handling = ""
        memory.path, memory.code, memory.reason = [], "defect", f"{event.event} could not be taken: {event.reason}"
        return ERROR if state is ERROR else arrive(memory, state, ERROR, turn)

    def drained(memory: FlowMemory, event: Drained, turn: Turn) -> AgentStatus | None:
        return look(memory, state, turn)

    return {
        Entered: row(entered, *targets, internal=True),
        Handled: row(handled, *targets, internal=True),
        Reported: row(reported),
        Broke: row(broke) if state is ERROR else row(broke, ERROR),
        Drained: row(drained, *targets, internal=True),
    }


def _people_rows(state: AgentStatus) -> dict[type[Event], Row]:
    """What people say; it is done when no handler runs."""

    def said(memory: FlowMemory, event: Said, turn: Turn) -> AgentStatus:
        message = Message(text=event.text, by=turn.actor, at=turn.at, to=event.to or memory.ask, values=event.values)
        hear(memory, msgspec.structs.replace(message, secret=event.secret, confided=event.confided))
        return state

    def answered(memory: FlowMemory, event: Answered, turn: Turn) -> AgentStatus:
        answer(memory, event, turn)
        return state

    def paused(memory: FlowMemory, event: Pause, turn: Turn) -> AgentStatus:
        _refuse_where_cancelled(memory)
        if state is PAUSED:
            raise Refused("this conversation is paused already")
        memory.wants, memory.wanted_by = "pause", event.reason
        tell_children(memory.live_children(), event, turn)
        return state

    def unpaused(memory: FlowMemory, event: Unpause, turn: Turn) -> AgentStatus:
        _refuse_where_cancelled(memory)
        if state is not PAUSED and memory.wants != "pause":
            raise Refused("this conversation is not paused")
        if memory.wants == "resume" or (memory.handling and memory.handler == "resume"):
            raise Refused("this conversation is being resumed already")
        memory.wants = "resume" if state is PAUSED else ""
        tell_children(memory.live_children(), event, turn)
        return state

    def recalled(memory: FlowMemory, event: Recalled, turn: Turn) -> AgentStatus:
        return state

    return {Recalled: row(recalled), Said: row(said), Answered: row(answered), Pause: row(paused), Unpause: row(unpaused)}


def _refuse_where_cancelled(memory: FlowMemory) -> None:
    if memory.wants == "cancel":
        raise Refused("this conversation is being cancelled")


def _common_rows(state: AgentStatus) -> dict[type[Event], Row]:
    """What is journaled in every state, and moves none."""

    def claimed(memory: FlowMemory, event: Claimed, turn: Turn) -> AgentStatus:
        memory.resting = set()  # its children will say how they are
        return state

    def forked(memory: FlowMemory, event: Forked, turn: Turn) -> AgentStatus:
        leave_children(memory, turn)
        if memory.handling:  # the effect is the origin's in another name: called off; its handler is called anew, or asked about
            turn.perform(Withdraw(target=memory.handling))
            if memory.entered:
                take_in(memory, Handled(effect=memory.handling, interrupted=True))
            else:
                memory.handling = ""
                if memory.handler not in (*ASIDE, "on_running"):  # on_running is called for its state, with the message it had
                    memory.queue.insert(0, memory.message)
        if memory.due is not None:
            memory.due += event.idle_s
        if memory.ends_at is not None:
            memory.ends_at += event.idle_s
        return state

    def closed(memory: FlowMemory, event: Withdrawn | Woken, turn: Turn) -> AgentStatus:
        return state

    return {Claimed: row(claimed), Forked: row(forked), Withdrawn: row(closed), Woken: row(closed), **child_rows(state)}


def _cancel_row(state: AgentStatus) -> Row:
    def cancelled(memory: FlowMemory, event: Cancel, turn: Turn) -> AgentStatus:
        want_cancel(memory, event.reason, turn)
        # A run in ERROR has ended: nobody would come and look at the whole.
        return leave(memory, state, turn) if state is ERROR and not memory.handling else state

    return row(cancelled, CANCELLED, internal=True) if state is ERROR else row(cancelled)


def _late_rows(state: AgentStatus) -> dict[type[Event], Row]:
    """A conversation that has ended takes what was outstanding, and nothing else."""

    def late(memory: FlowMemory, event: Answered | Handled | Broke, turn: Turn) -> AgentStatus:
        if isinstance(event, Answered) and not event.withdrawn:
            raise not_asked(event)
        return state

    def drained(memory: FlowMemory, event: Drained, turn: Turn) -> None:
        """Nothing is left to look at."""

    return {Answered: row(late), Handled: row(late), Broke: row(late), Drained: row(drained)}


def _rows(state: AgentStatus) -> dict[type[Event], Row]:
    rows = _common_rows(state)
    if state in (COMPLETED, CANCELLED):
        return rows | _late_rows(state)
    rows |= _handler_rows(state)
    rows[Cancel] = _cancel_row(state)
    if state is ERROR:  # an end with one exit: a cancel changes the outcome
        rows[Answered] = _late_rows(state)[Answered]
        return rows
    if state is INITIALIZING:
        rows[Begun] = row(begin)
    return rows | _people_rows(state)


_TABLE: dict[Any, dict[type[Event], Row]] = {state: _rows(state) for state in AgentStatus}

FLOW_AGENT: Machine[FlowMemory] = Machine(
    "flow agent",
    states=AgentStatus,
    initial=INITIALIZING,
    table=_TABLE,
    effects=(Handle, Wake, StartChild, Relay, Ask, Withdraw),
    memory=FlowMemory,
    ends=[ERROR],
    requests=REQUESTS,
)
"""The machine of every conversation."""
