"""The flow agent's table: ``STATE_TRANSITIONS``, literally.

Only user code chooses where a conversation goes (``Entered``, ``Handled``), and only where ``STATE_TRANSITIONS`` leads; a handler
that makes several transitions leaves the later ones to ``Drained``, so each has an entry. What a person wants while a handler
runs waits for it. A cancel where the table has no edge to CANCELLED goes through PAUSED, which calls no handler.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from asterism.errors import Refused
from asterism.kernel.machine import Event, Machine, Row, Turn, row
from asterism.machines.children import ChildEnded, ChildRested
from asterism.machines.common_rows import DEFECT, Control, call_off, governed, why_broke
from asterism.machines.control import Answered, Broke, Cancel, Drained, Forked, Pause, Unpause
from asterism.machines.flow_agent.children import child_ended, child_rested, child_wanted, leave_children
from asterism.machines.flow_agent.events import (
    CANCELLED,
    COMPLETED,
    ERROR,
    INITIALIZING,
    PAUSED,
    RUNNING,
    STATE_TRANSITIONS,
    WAITING_FOR_APPROVAL,
    WAITING_FOR_INPUT,
    AgentStatus,
    Begun,
    ChildWanted,
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
from asterism.machines.flow_agent.moves import (
    ASIDE,
    answer,
    arrive,
    begin,
    check_path,
    hear,
    leave,
    look,
    step_on,
    take_in,
    take_view,
    want_cancel,
)
from asterism.machines.flow_agent.requests import REQUESTS
from asterism.machines.flow_agent.starting import first_event
from asterism.machines.flow_agent.states import Acting, Asked, Called, Idle

# -- what handlers did -----------------------------------------------------------------------------


def _entered(memory: FlowMemory, event: Entered, turn: Turn) -> AgentStatus | None:
    if event.of != memory.handling:
        return None
    state = AgentStatus(turn.state)
    check_path(memory, state, event.path)
    if memory.wants == "cancel":  # it is ended where it waits to enter
        turn.perform(Wake(of=event.of, cancel_requested=True))
        return state
    was = memory.handler
    if isinstance(was, Called):
        memory.handler = Acting(effect=was.effect, handler=was.handler, resumable=was.resumable)
    take_view(memory, event.view, turn)
    memory.path, memory.last_act = [*event.path], "none"
    return step_on(memory, state, turn)


def _handled(memory: FlowMemory, event: Handled, turn: Turn) -> AgentStatus:
    state = AgentStatus(turn.state)
    check_path(memory, state, event.path)
    take_in(memory, event, turn)
    return step_on(memory, state, turn)


def _drained(memory: FlowMemory, event: Drained, turn: Turn) -> AgentStatus | None:
    return look(memory, AgentStatus(turn.state), turn)


def _led_by_handlers(state: AgentStatus) -> dict[type[Event], Row]:
    """Rows by which user code moves a conversation."""
    targets = STATE_TRANSITIONS[state]
    return {kind: row(move, *targets, internal=True) for kind, move in ((Entered, _entered), (Handled, _handled), (Drained, _drained))}


def _reported(memory: FlowMemory, event: Reported, turn: Turn) -> StrEnum | None:
    return turn.state if event.of == memory.handling else None


def _woken(memory: FlowMemory, event: Woken, turn: Turn) -> StrEnum:
    return turn.state


# -- what people say: it is done when no handler runs ------------------------------------------------


def _said(memory: FlowMemory, event: Said, turn: Turn) -> StrEnum:
    message = Message(text=event.text, by=turn.actor, at=turn.at, to=event.to or memory.ask, values=event.values)
    hear(memory, msgspec.structs.replace(message, secret=event.secret, confided=event.confided))
    return turn.state


def _answered(memory: FlowMemory, event: Answered, turn: Turn) -> StrEnum:
    answer(memory, event, turn)
    return turn.state


def _recalled(memory: FlowMemory, event: Recalled, turn: Turn) -> StrEnum:
    return turn.state


def _paused(memory: FlowMemory, event: Pause, turn: Turn) -> None:
    _refuse_where_cancelled(memory)
    if turn.state is PAUSED:
        raise Refused("this conversation is paused already")
    memory.wants, memory.wanted_by = "pause", event.reason


def _unpaused(memory: FlowMemory, event: Unpause, turn: Turn) -> None:
    _refuse_where_cancelled(memory)
    if turn.state is not PAUSED and memory.wants != "pause":
        raise Refused("this conversation is not paused")
    if memory.wants == "resume" or (isinstance(memory.handler, Called) and memory.handler.handler == "resume"):
        raise Refused("this conversation is being resumed already")
    memory.wants = "resume" if turn.state is PAUSED else ""


def _refuse_where_cancelled(memory: FlowMemory) -> None:
    if memory.wants == "cancel":
        raise Refused("this conversation is being cancelled")


# -- what ends it ------------------------------------------------------------------------------------


def _cancelled(memory: FlowMemory, event: Cancel, turn: Turn) -> StrEnum:
    want_cancel(memory, event.reason, turn)
    return turn.state


def _cancelled_in_error(memory: FlowMemory, event: Cancel, turn: Turn) -> AgentStatus:
    want_cancel(memory, event.reason, turn)
    # The run has ended: nobody would come and look at the whole.
    return ERROR if memory.handling else leave(memory, ERROR, turn)


def _broke(memory: FlowMemory, event: Broke, turn: Turn) -> AgentStatus:
    if memory.handling not in ("", event.effect):  # what it waits for may be what could not be taken
        call_off(memory.handling, turn)
        memory.resting.discard(memory.handling)
    memory.handler = Idle()
    memory.path, memory.code, memory.reason = [], DEFECT, why_broke(event)
    return ERROR if turn.state is ERROR else arrive(memory, AgentStatus(turn.state), ERROR, turn)


def _forked(memory: FlowMemory, event: Forked, turn: Turn) -> None:
    leave_children(memory)
    was = memory.handler
    if not isinstance(was, Idle):  # the effect is the origin's in another name: called off; its handler is called anew, or asked about
        call_off(was.effect, turn)
    if isinstance(was, Acting):
        take_in(memory, Handled(effect=was.effect, interrupted=True), turn)
    elif isinstance(was, Called):
        memory.handler = Idle()
        if was.handler not in (*ASIDE, "on_running"):  # on_running is called for its state, with the message it had
            memory.queue.insert(0, memory.message)
    if isinstance(memory.question, Asked) and memory.question.expires_at is not None:
        memory.question = Asked(inquiry=memory.question.inquiry, expires_at=memory.question.expires_at + event.idle_s)
    if memory.ends_at is not None:
        memory.ends_at += event.idle_s


FLOW_AGENT: Machine[FlowMemory] = governed(
    "flow agent",
    states=AgentStatus,
    initial=INITIALIZING,
    table={
        INITIALIZING: {Begun: row(begin), **_led_by_handlers(INITIALIZING)},
        RUNNING: _led_by_handlers(RUNNING),
        WAITING_FOR_INPUT: _led_by_handlers(WAITING_FOR_INPUT),
        WAITING_FOR_APPROVAL: _led_by_handlers(WAITING_FOR_APPROVAL),
        PAUSED: _led_by_handlers(PAUSED),
        COMPLETED: {},
        ERROR: {**_led_by_handlers(ERROR), Cancel: row(_cancelled_in_error, CANCELLED, internal=True), Broke: row(_broke)},
        CANCELLED: {},
    },
    effects=(Handle, Wake),
    memory=FlowMemory,
    control=Control(cancel=row(_cancelled), defect=row(_broke, ERROR), forked=_forked, paused=_paused, unpaused=_unpaused),
    ends=[ERROR],  # an end with one exit: a cancel changes the outcome
    common={
        Reported: row(_reported),
        Woken: row(_woken),
        ChildWanted: row(child_wanted),
        ChildRested: row(child_rested),
        ChildEnded: row(child_ended),
    },
    while_live={Said: row(_said), Answered: row(_answered), Recalled: row(_recalled)},
    requests=REQUESTS,
    starts=first_event,
)
"""The machine of every conversation."""
