"""The parts of a conversation's moves: messages, handler results, the next handler."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from asterism.conversation.machine.events import (
    CANCELLED,
    COMPLETED,
    ERROR,
    HANDLERS,
    INITIALIZING,
    PAUSED,
    RUNNING,
    STATE_TRANSITIONS,
    WAITING_FOR_APPROVAL,
    WAITING_FOR_INPUT,
    AgentStatus,
    AgentView,
    CallHandler,
    ChildRequested,
    ConversationStarted,
    Handler,
    HandlerEnded,
    Message,
    MessageReceived,
    NotifyHandler,
    is_before_approval,
)
from asterism.conversation.machine.memory import (
    MAX_QUEUED,
    ChildRun,
    FlowMemory,
    HandlerCalled,
    HandlerRunning,
    NoHandler,
)
from asterism.engine.control.children import ChildBlocked, ChildEnded, signal_children
from asterism.engine.control.guarding import begun, note_run_edited, start_child
from asterism.engine.control.inquiries import INTERRUPTION, check_digest, close_inquiry, is_expired, open_inquiry
from asterism.engine.control.run_control import Answered, BatchEnded, Cancel, CancelEffect, Verb
from asterism.engine.kernel.guards import out_of_bounds
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.permissions import Permission
from asterism.engine.kernel.phrase import Text, phrase
from asterism.errors import IllegalTransition, Refused

INTERRUPTED_PROMPT = phrase("conversation.interrupted")
GUARDED = 2
"""Rules from which on a conversation has guards, and a fork asks again for an approval that was not used."""
HOLDS_MESSAGES = 2
"""Rules from which on a message that came before a pause is handled after it."""
CANCELLED_PROMPT = phrase("conversation.cancelled")
TOO_LONG_PROMPT = phrase("conversation.too_late")

ASIDE: tuple[Handler, ...] = ("pause", "resume", "on_interrupted")
"""Handlers that run outside the course of the conversation; their message does not replace
``FlowMemory.message``."""

# -- what people say -------------------------------------------------------------------------------


def begin(memory: FlowMemory, event: ConversationStarted, context: StepContext) -> AgentStatus:
    """Begin a conversation with its first message."""
    if memory.agent:
        raise Refused(phrase("submitted_already"))
    memory.agent, memory.tenant, memory.limits = event.agent, event.tenant, event.limits
    memory.requires_approval, memory.declared = event.requires_approval, event.declared
    memory.language, memory.time_zone = event.language, event.time_zone
    memory.ends_at = None if event.limits.wall_s is None else context.at + event.limits.wall_s
    if context.rules >= GUARDED:
        memory.guards = begun(event.guards, context)
    # A message from another run has no time.
    enqueue_message(memory, event.message if event.message.at else msgspec.structs.replace(event.message, at=context.at))
    return INITIALIZING


def enqueue_message(memory: FlowMemory, message: Message) -> None:
    """Queue a message."""
    if len(memory.queue) + len(memory.held) >= MAX_QUEUED:
        raise Refused(phrase("conversation.queue_full", most=MAX_QUEUED))
    memory.queue.append(message)
    memory.remember(message.by, message.text)


def received(memory: FlowMemory, event: MessageReceived, context: StepContext) -> Message:
    """Return a message that was not sent as an answer; it is one if it names the open question, or none."""
    _check_values(memory, event.values)
    inquiry_id = event.inquiry_id or memory.open_question
    if inquiry_id in memory.inquiries:
        check_digest(memory, inquiry_id, "respond", event.digest, context)
    elif memory.guards.submitter and Permission.LOCAL not in context.permissions:
        inquiry_id = ""  # nothing says any more what that question showed
    return Message(
        text=event.text,
        by=context.actor,
        at=context.at,
        inquiry_id=inquiry_id,
        values=event.values,
        secret=event.secret,
        confidential=event.confidential,
    )


def take_answer(memory: FlowMemory, event: Answered, context: StepContext) -> StrEnum:
    """Queue an answer to the open question as a message."""
    if not event.cancelled and event.verb == "cancel":
        request_cancel(memory, event.reason, context)
    elif not event.cancelled:
        values = event.value if isinstance(event.value, dict) else {}
        _check_values(memory, values)
        if event.verb == "edit":
            _note_edited(memory, is_foreign=Permission.LOCAL not in context.permissions)
        said = event.reason if event.verb == "reject" else "" if event.value is None or values else str(event.value)
        enqueue_message(
            memory, Message(text=said, by=context.actor, at=context.at, inquiry_id=event.effect_id, verb=event.verb, values=values)
        )
    return context.state


def _check_values(memory: FlowMemory, values: dict[str, Any]) -> None:
    """Check values that a person gives by name; those in words are checked in the view that a handler makes of them.

    Raises:
        Refused: they may not be given; the question stays open.
    """
    if why := _why_not_given(memory, msgspec.structs.replace(memory.view, fields={**memory.view.fields, **values})):
        raise Refused(why)


def _why_not_given(memory: FlowMemory, view: AgentView) -> Text:
    """Return why a person may not change the fields to those of a view: one was approved, or is out of bounds; empty if they may."""
    before, fields = memory.view.fields, view.fields
    asks_another = memory.requires_approval and memory.guards.submitter_may_approve
    approved = (memory.given or ()) if memory.guards.is_approved and not asks_another else ()
    # Another guess counts, too: "yes" would make it the value
    read_before, read = ({name: guess["value"] for name, guess in either.pending.items()} | either.fields for either in (memory.view, view))
    if names := [name for name in approved if name in {*read, *before} and read.get(name) != read_before.get(name)]:
        return phrase("conversation.approved_otherwise", names=names)
    if not memory.guards.started_by:
        return ""
    changed = {name: value for name, value in fields.items() if name not in before or before[name] != value}
    return out_of_bounds(memory.guards.of(*memory.guards.started_by), changed)


def _note_edited(memory: FlowMemory, *, is_foreign: bool) -> None:
    """Note that somebody has edited the run, or one below it: what the handler starts now may be other than its code says."""
    note_run_edited(memory, is_foreign=is_foreign)
    _concern_all(memory)


def _concern_all(memory: FlowMemory) -> None:
    memory.guards = msgspec.structs.replace(memory.guards, concerning=memory.guards.of_plan)


def void_approvals(memory: FlowMemory, state: AgentStatus, context: StepContext) -> None:
    """Void the approval in a fork or an import, and an answer that no handler has taken; ``on_running`` asks before its next call."""
    if not memory.open_question:
        memory.last_question = ""  # a queued answer to it is dropped, and the question is asked again
    is_in_running = RUNNING in (memory.before if state is PAUSED else state, *memory.transitions)
    if (memory.requires_approval or memory.approved is not None) and is_in_running and not memory.interrupted:
        close_inquiry(memory, memory.open_question, context)
        memory.last_running = "interrupted"
        memory.prompt = INTERRUPTED_PROMPT if (memory.transitions or [state])[-1] is RUNNING else memory.prompt
    memory.approved = None


def request_cancel(memory: FlowMemory, reason: Text, context: StepContext) -> None:
    """Request the cancellation of the conversation, and cancel its children at once."""
    signal_children(memory.live_children(), Cancel(reason=reason), context)
    memory.requested_action, memory.requested_by = "cancel", phrase("run_cancelled", by=context.actor, why=reason)


# -- what handlers did -----------------------------------------------------------------------------


def check_transitions(memory: FlowMemory, state: AgentStatus, path: Iterable[AgentStatus], view: AgentView) -> None:
    """Check that a handler's transitions are edges, and that no handler enters RUNNING too early.

    Where approval is required, a handler may enter RUNNING only if it was called with an answer to
    the approval question, the conversation was paused in RUNNING, or ``on_running`` has asked
    something and the approved values and all secrets are unchanged. The agent decides whether the answer is a yes.

    Raises:
        IllegalTransition: one fails the check; nothing has changed.
    """
    handler = "on_running" if isinstance(memory.handler, NoHandler) else memory.handler.handler
    is_unapproved = memory.requires_approval and is_before_approval(handler, state, memory.before)
    is_unapproved = is_unapproved and not (state is WAITING_FOR_INPUT and memory.approved == view.shown and not view.secrets_changed)
    for target in path:
        if target is RUNNING and is_unapproved:
            others = [other for other in STATE_TRANSITIONS[state] if other is not RUNNING]
            raise IllegalTransition("flow agent", state, "a transition to RUNNING without an approval", others)
        if target not in STATE_TRANSITIONS[state]:
            raise IllegalTransition("flow agent", state, f"a transition to {target}", STATE_TRANSITIONS[state])
        if target is RUNNING and handler == "on_waiting_for_approval":
            memory.approved, memory.was_approved = view.shown, True
        state = target


def take_result(memory: FlowMemory, event: HandlerEnded, context: StepContext) -> None:
    """Apply a handler's result; its transitions are made one by one."""
    was, memory.handler = memory.handler, NoHandler()
    memory.blocked_children.discard(event.effect_id)
    memory.transitions = [*memory.transitions, *event.transitions]
    if event.interrupted:
        has_acted = isinstance(was, HandlerRunning) or (isinstance(was, HandlerCalled) and was.handler == "on_running")
        memory.last_running = "interrupted" if has_acted else "none"
        memory.prompt = INTERRUPTED_PROMPT if memory.interrupted else memory.prompt
        return
    if event.reenter:
        memory.last_running, memory.was_approved = "again", True
    elif isinstance(was, HandlerRunning):
        memory.last_running = "ended"
    elif isinstance(was, HandlerCalled) and was.handler == "pause" and context.rules >= HOLDS_MESSAGES:
        memory.held, memory.queue = memory.queue, []
    take_view(memory, event.view or memory.view, context)
    memory.prompt = event.text or ("" if event.transitions else memory.prompt)
    memory.remember("agent", event.text)
    memory.data = event.data or memory.data
    if event.code:
        memory.code, memory.why = event.code, event.reason
    if event.cancel:
        memory.requested_action, memory.requested_by = "cancel", event.reason


def take_view(memory: FlowMemory, view: AgentView, context: StepContext) -> None:
    """Replace the view of the agent by the one that a handler left. A field that has another value now counts as edited."""
    before = memory.view.shown
    if any(view.shown.get(name) != before.get(name) for name in (*before, *(memory.given or ()))):
        _concern_all(memory)
    if memory.given is None:
        # One that the agent does not accept, or only guesses from words, was approved, too
        memory.given = tuple(dict.fromkeys((*memory.message.values, *view.fields, *view.pending)))
    context.touch("field", *memory.view.named, *view.named)
    memory.approved = None if view.secrets_changed else memory.approved
    if view.shown != memory.view.shown or view.secrets_changed:
        memory.last_question = ""  # an answer that a pause holds is for other values; the question is asked again
    memory.view = view


def check_given(memory: FlowMemory, view: AgentView, context: StepContext) -> None:
    """Cancel the conversation if what a person has said changes an approved field of the request, or gives one out of bounds."""
    is_on_running = isinstance(memory.handler, HandlerRunning) or (
        isinstance(memory.handler, HandlerCalled) and memory.handler.handler == "on_running"
    )
    if not is_on_running and (why := _why_not_given(memory, view)):
        request_cancel(memory, "", context)
        memory.code, memory.why = "guarded", why


def step_on(memory: FlowMemory, state: AgentStatus, context: StepContext) -> AgentStatus:
    """Make the next pending transition, if any; after the last one notify a waiting handler."""
    now = arrive(memory, state, memory.transitions.pop(0), context) if memory.transitions else state
    if memory.handler_effect and not memory.transitions:  # the transitions led the handler to RUNNING
        is_cancelled = memory.requested_action == "cancel"
        context.schedule(NotifyHandler(effect_id=memory.handler_effect, entered=not is_cancelled, cancel_requested=is_cancelled))
    return now


def arrive(memory: FlowMemory, was: AgentStatus, now: AgentStatus, context: StepContext) -> AgentStatus:
    """Update the memory for a new state, and return the state."""
    if now is WAITING_FOR_APPROVAL:
        memory.approved = None
    if now is PAUSED and was is not PAUSED:
        memory.before = was
    memory.paused = now is PAUSED and not memory.transitions
    if memory.interrupted and now not in (RUNNING, PAUSED):
        memory.last_running = "none"
    if memory.interrupted and now is RUNNING:  # resumed; the question about the interruption is still unanswered
        memory.prompt = INTERRUPTED_PROMPT
    if now in (COMPLETED, ERROR, CANCELLED):
        memory.transitions, memory.queue, memory.held = [], [], []
        memory.requested_action, memory.last_running = "", "none"
        memory.ends_at = None
        if now is COMPLETED:
            memory.code = "finished"
        elif now is ERROR:
            memory.code = memory.code or "error"
        else:
            memory.code = memory.code if memory.code in ("rejected", "expired", "guarded", "wall_limit") else "cancelled"
            memory.why = memory.why or memory.requested_by
        if was is not ERROR:
            signal_children(memory.live_children(), Cancel(reason=phrase("conversation.parent_ended", state=now)), context)
    return now


# -- the next handler ------------------------------------------------------------------------------


def schedule_next(memory: FlowMemory, event: BatchEnded, context: StepContext) -> AgentStatus | None:
    """Evaluate the conversation: make a transition, cancel, call a handler, or ask the person."""
    state = AgentStatus(context.state)
    if memory.transitions:
        return step_on(memory, state, context)
    is_late = memory.ends_at is not None and context.at >= memory.ends_at
    if is_late:
        run_out(memory, context)
    if memory.handler_effect or not memory.agent or (state is ERROR and _is_handler_ending(context)):
        return state if is_late else None
    if is_expired(memory, memory.open_question, context):
        memory.requested_action, memory.code, memory.why = "cancel", "expired", phrase("nobody_answered")
    if memory.requested_action == "cancel":
        return leave(memory, state, context)
    if state is not PAUSED:
        memory.queue, memory.held = [*memory.held, *memory.queue], []
    queued = len(memory.queue)
    if call_next(memory, state, context):
        return state
    if not memory.open_question and state not in (PAUSED, ERROR):
        _ask(memory, state, context)
        return state
    return state if queued else None


def run_out(memory: FlowMemory, context: StepContext) -> None:
    """Request a cancel after the time limit, without waiting for people or handlers."""
    memory.code, memory.why, memory.ends_at = "wall_limit", phrase("conversation.too_long", limit_s=memory.limits.wall_s or 0), None
    signal_children(memory.live_children(), Cancel(reason=memory.why), context)
    memory.requested_action = "cancel"
    if memory.handler_effect:
        context.schedule(CancelEffect(effect_id=memory.handler_effect))


def leave(memory: FlowMemory, state: AgentStatus, context: StepContext) -> AgentStatus:
    """Cancel: at once if the table has the edge, else through PAUSED."""
    memory.requested_action = ""
    memory.prompt = TOO_LONG_PROMPT if memory.code in ("expired", "wall_limit") else CANCELLED_PROMPT
    memory.remember("agent", memory.prompt)
    if CANCELLED in STATE_TRANSITIONS[state]:
        return arrive(memory, state, CANCELLED, context)
    memory.transitions = [CANCELLED]
    return arrive(memory, state, PAUSED, context)


def _is_handler_ending(context: StepContext) -> bool:
    """Return True while a cancelled handler has not ended, because only one runs at a time."""
    return any(isinstance(context.outstanding.get(effect), CallHandler) for effect in context.abandoned)


def _next_handler(memory: FlowMemory, state: AgentStatus) -> tuple[Handler, Message] | None:
    """Return the handler to call with its message; None if the run waits only for the person."""
    if state is ERROR:
        return _next_in_error(memory)
    if memory.last_running == "again" or (state is RUNNING and memory.last_running == "none"):
        return "on_running", memory.message
    if memory.requested_action == "pause" and not (state is INITIALIZING and memory.queue):
        return "pause", Message(text=str(memory.requested_by))
    if memory.requested_action == "resume":
        return "resume", Message()
    is_interrupted = memory.interrupted and state is RUNNING
    needs_answer = state is WAITING_FOR_APPROVAL or is_interrupted
    while memory.queue:
        message = memory.queue.pop(0)
        if message.confidential and not memory.view.secret_expected:  # sent twice, perhaps; no secret is expected now
            continue
        if not needs_answer or (message.inquiry_id and message.inquiry_id == memory.last_question):
            return "on_interrupted" if is_interrupted else HANDLERS[state], message
    return None


def _next_in_error(memory: FlowMemory) -> tuple[Handler, Message] | None:
    """Return ``on_error`` with the message that led to the error, and then with each later one."""
    if memory.error_reported:
        return ("on_error", memory.queue.pop(0)) if memory.queue else None
    memory.error_reported = True
    return "on_error", memory.message


def call_next(memory: FlowMemory, state: AgentStatus, context: StepContext) -> bool:
    """Call the next handler; return False if the run waits only for the person."""
    called = _next_handler(memory, state)
    if called:
        _call(memory, *called, context)
    return called is not None


def _call(memory: FlowMemory, handler: Handler, message: Message, context: StepContext) -> None:
    close_inquiry(memory, memory.open_question, context)
    if handler == "pause":
        memory.before_prompt = memory.prompt
    held = memory.queue if handler == "pause" else memory.held
    if context.rules < HOLDS_MESSAGES or all(it.inquiry_id != memory.last_question for it in held):
        memory.last_question = ""
    memory.requested_action = ""
    memory.last_running = "interrupted" if memory.interrupted else "none"
    memory.message = memory.message if handler in ASIDE else message
    memory.handler = HandlerCalled(effect_id=context.schedule(CallHandler(handler=handler, message=message)), handler=handler)


def _ask(memory: FlowMemory, state: AgentStatus, context: StepContext) -> None:
    approval = state is WAITING_FOR_APPROVAL
    verbs: tuple[Verb, ...] = ("respond",)
    ends = {"secrets": memory.view.secret_ends} if approval and memory.view.secret_ends else {}
    if approval or memory.interrupted:
        verbs = ("approve", "edit", "reject", "respond") if approval else ("approve", "reject", "respond")
    elif memory.view.secret_expected:
        verbs = ()  # a secret is given to the process that owns the conversation, and is never stored
    memory.last_question = open_inquiry(
        memory,
        "approval" if approval else INTERRUPTION if memory.interrupted else "question",
        memory.prompt or phrase("conversation.waits", agent=memory.agent.rpartition(":")[2]),
        {"agent": memory.agent, "fields": memory.view.shown, **ends},
        context,
        verbs=verbs,
        schema={"properties": dict.fromkeys(memory.view.secret_fields, False)} if memory.view.secret_fields else {},
        risk="medium" if approval or memory.interrupted else "low",
    )


# -- child runs, one for each key ------------------------------------------------------------------


def child_requested(memory: FlowMemory, event: ChildRequested, context: StepContext) -> StrEnum | None:
    """Start the child of a key, if there is none.

    If the child has ended, or a cancel was requested, the handler is notified at once.
    """
    if event.effect_id != memory.handler_effect:
        return None
    if isinstance(memory.handler, HandlerCalled | HandlerRunning):
        memory.handler = msgspec.structs.replace(memory.handler, resumable=event.resumable)
    child = memory.children.get(event.key)
    if memory.requested_action == "cancel":
        context.schedule(NotifyHandler(effect_id=event.effect_id, cancel_requested=True))
    elif child is None:
        concerned_by = memory.guards.concerning
        effect_id = start_child(memory, event.start, context, concerned_by=concerned_by, is_approved=memory.was_approved)
        memory.children[event.key] = ChildRun(effect_id=effect_id, start=event.start)
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
    if event.edited:
        _note_edited(memory, is_foreign=event.edited == "foreign")
    memory.blocked_children -= {event.effect_id, memory.handler_effect}
    if key is not None and memory.handler_effect:
        context.schedule(
            NotifyHandler(effect_id=memory.handler_effect, child_key=key, cancel_requested=memory.requested_action == "cancel")
        )
    return context.state
