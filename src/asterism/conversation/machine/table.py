"""The flow agent's table: the only place that moves its state, along ``STATE_TRANSITIONS``.

Handlers choose the next states (``RunningEntered``, ``HandlerEnded``); apart from them only a cancel, a
time limit or a defect moves a conversation. When a handler makes several transitions, each
``BatchEnded`` makes one of the rest, so that each has its own entry. Messages, and a pause, resume
or cancel by a person, take effect when no handler runs. A cancel in a state without an edge to
CANCELLED goes through PAUSED without calling a handler.
"""

from __future__ import annotations

from enum import StrEnum

from asterism.conversation.machine.events import (
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
    CallHandler,
    ChildRequested,
    ConversationRecalled,
    ConversationStarted,
    HandlerEnded,
    HandlerNotified,
    HandlerReported,
    MessageReceived,
    NotifyHandler,
    RunningEntered,
    first_event,
)
from asterism.conversation.machine.memory import FlowMemory, HandlerCalled, HandlerRunning, NoHandler
from asterism.conversation.machine.moves import (
    ASIDE,
    GUARDED,
    arrive,
    begin,
    call_next,
    check_given,
    check_transitions,
    child_blocked,
    child_ended,
    child_requested,
    enqueue_message,
    leave,
    received,
    request_cancel,
    schedule_next,
    step_on,
    take_answer,
    take_result,
    take_view,
    void_approvals,
)
from asterism.conversation.machine.requests import REQUESTS
from asterism.engine.control.children import ChildBlocked, ChildEnded
from asterism.engine.control.common_rows import DEFECT, RunControl, cancel_effect, define_machine
from asterism.engine.control.inquiries import ask_again
from asterism.engine.control.run_control import Answered, BatchEnded, Cancel, Forked, Imported, Pause, TransitionFailed, Unpause
from asterism.engine.kernel.machine import Event, Machine, Row, StepContext, row
from asterism.engine.kernel.phrase import phrase
from asterism.errors import Refused

# -- what handlers did -----------------------------------------------------------------------------


def _entered(memory: FlowMemory, event: RunningEntered, context: StepContext) -> AgentStatus | None:
    if event.effect_id != memory.handler_effect:
        return None
    state = AgentStatus(context.state)
    check_transitions(memory, state, event.transitions, event.view)
    check_given(memory, event.view, context)
    if memory.requested_action == "cancel":  # the handler is cancelled where it waits to enter
        context.schedule(NotifyHandler(effect_id=event.effect_id, cancel_requested=True))
        return state
    was = memory.handler
    if isinstance(was, HandlerCalled):
        memory.handler = HandlerRunning(effect_id=was.effect_id, handler=was.handler, resumable=was.resumable)
    take_view(memory, event.view, context)
    memory.transitions, memory.last_running = [*event.transitions], "none"
    return step_on(memory, state, context)


def _handled(memory: FlowMemory, event: HandlerEnded, context: StepContext) -> AgentStatus:
    state = AgentStatus(context.state)
    check_transitions(memory, state, event.transitions, event.view or memory.view)
    check_given(memory, event.view or memory.view, context)
    take_result(memory, event, context)
    return step_on(memory, state, context)


def _handler_rows(state: AgentStatus) -> dict[type[Event], Row]:
    targets = STATE_TRANSITIONS[state]
    return {
        kind: row(move, *targets, internal=True)
        for kind, move in ((RunningEntered, _entered), (HandlerEnded, _handled), (BatchEnded, schedule_next))
    }


def _reported(memory: FlowMemory, event: HandlerReported, context: StepContext) -> StrEnum | None:
    return context.state if event.effect_id == memory.handler_effect else None


def _stay(memory: FlowMemory, event: HandlerNotified | ConversationRecalled, context: StepContext) -> StrEnum:
    return context.state


# -- messages and requests of people: handled when no handler runs ---------------------------------


def _message_received(memory: FlowMemory, event: MessageReceived, context: StepContext) -> StrEnum:
    enqueue_message(memory, received(memory, event, context))
    return context.state


def _message_in_error(memory: FlowMemory, event: MessageReceived, context: StepContext) -> AgentStatus:
    _message_received(memory, event, context)
    if not memory.handler_effect:  # the run has ended, so no BatchEnded follows
        call_next(memory, ERROR, context)
    return ERROR


def _paused(memory: FlowMemory, event: Pause, context: StepContext) -> None:
    _refuse_if_cancelling(memory)
    if context.state is PAUSED:
        raise Refused(phrase("conversation.paused_already"))
    memory.requested_action, memory.requested_by = "pause", event.reason


def _unpaused(memory: FlowMemory, event: Unpause, context: StepContext) -> None:
    _refuse_if_cancelling(memory)
    if context.state is not PAUSED and memory.requested_action != "pause":
        raise Refused(phrase("conversation.not_paused"))
    if memory.requested_action == "resume" or (isinstance(memory.handler, HandlerCalled) and memory.handler.handler == "resume"):
        raise Refused(phrase("conversation.resumed_already"))
    memory.requested_action = "resume" if context.state is PAUSED else ""


def _refuse_if_cancelling(memory: FlowMemory) -> None:
    if memory.requested_action == "cancel":
        raise Refused(phrase("conversation.being_cancelled"))


# -- cancels, defects, forks -----------------------------------------------------------------------


def _cancelled(memory: FlowMemory, event: Cancel, context: StepContext) -> StrEnum:
    request_cancel(memory, event.reason, context)
    return context.state


def _cancelled_in_error(memory: FlowMemory, event: Cancel, context: StepContext) -> AgentStatus:
    request_cancel(memory, event.reason, context)
    # The run has ended, so no BatchEnded follows.
    return ERROR if memory.handler_effect else leave(memory, ERROR, context)


def _transition_failed(memory: FlowMemory, event: TransitionFailed, context: StepContext) -> AgentStatus:
    if memory.handler_effect not in ("", event.effect_id):  # the handler may be waiting for the event that failed
        cancel_effect(memory.handler_effect, context)
        memory.blocked_children.discard(memory.handler_effect)
    memory.handler = NoHandler()
    memory.transitions, memory.code, memory.why = [], DEFECT, phrase("run_defect", event=event.event, why=event.reason)
    return ERROR if context.state is ERROR else arrive(memory, AgentStatus(context.state), ERROR, context)


def _forked(memory: FlowMemory, event: Forked, context: StepContext) -> None:
    memory.children = {key: child for key, child in memory.children.items() if child.ended}  # a fork starts its own
    was = memory.handler
    if isinstance(was, HandlerRunning):  # the copied effect is cancelled, and a person is asked
        cancel_effect(was.effect_id, context)
        take_result(memory, HandlerEnded(effect_id=was.effect_id, interrupted=True), context)
    if memory.ends_at is not None:
        memory.ends_at += event.idle_s
    _begin_again(memory, context)


def _imported(memory: FlowMemory, event: Imported, context: StepContext) -> None:
    _begin_again(memory, context)
    if memory.open_question:
        memory.last_question = ask_again(memory, memory.open_question, context)


def _asked_again(memory: FlowMemory, before: str, now: str, context: StepContext) -> None:
    memory.last_question = now


def _begin_again(memory: FlowMemory, context: StepContext) -> None:
    """Call a handler again that has not entered ``on_running``, without the answers and approvals that it had."""
    was = memory.handler
    if isinstance(was, HandlerCalled):
        cancel_effect(was.effect_id, context)
        memory.handler = NoHandler()
        if was.handler not in (*ASIDE, "on_running"):  # on_running is called again for its state, with the same message
            memory.queue.insert(0, memory.message)
    if context.rules >= GUARDED and isinstance(memory.handler, NoHandler):
        void_approvals(memory, AgentStatus(context.state), context)


FLOW_AGENT: Machine[FlowMemory] = define_machine(
    "flow agent",
    states=AgentStatus,
    initial=INITIALIZING,
    table={
        INITIALIZING: {ConversationStarted: row(begin), **_handler_rows(INITIALIZING)},
        RUNNING: _handler_rows(RUNNING),
        WAITING_FOR_INPUT: _handler_rows(WAITING_FOR_INPUT),
        WAITING_FOR_APPROVAL: _handler_rows(WAITING_FOR_APPROVAL),
        PAUSED: _handler_rows(PAUSED),
        COMPLETED: {},
        ERROR: {
            **_handler_rows(ERROR),
            MessageReceived: row(_message_in_error),
            Cancel: row(_cancelled_in_error, CANCELLED, internal=True),
            TransitionFailed: row(_transition_failed),
        },
        CANCELLED: {},
    },
    effects=(CallHandler, NotifyHandler),
    memory=FlowMemory,
    control=RunControl(
        cancel=row(_cancelled),
        defect=row(_transition_failed, ERROR),
        forked=_forked,
        asked_again=_asked_again,
        imported=_imported,
        paused=_paused,
        unpaused=_unpaused,
    ),
    ends=[ERROR],  # a cancel can still change the end
    common={
        HandlerReported: row(_reported),
        HandlerNotified: row(_stay),
        ChildRequested: row(child_requested),
        ChildBlocked: row(child_blocked),
        ChildEnded: row(child_ended),
    },
    while_live={MessageReceived: row(_message_received), Answered: row(take_answer), ConversationRecalled: row(_stay)},
    requests=REQUESTS,
    starts=first_event,
    rules=2,
)
"""The machine of every conversation."""
