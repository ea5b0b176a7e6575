"""What the moves of a conversation are made of: what people say, what handlers did, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from asterism.errors import IllegalTransition, Refused
from asterism.kernel.machine import Turn
from asterism.machines.children import tell_children
from asterism.machines.common_rows import call_off, why_cancelled
from asterism.machines.control import Answered, Ask, Cancel, Verb, Withdraw, not_asked
from asterism.machines.flow_agent.events import (
    CANCELLED,
    COMPLETED,
    ERROR,
    HANDLERS,
    INITIALIZING,
    PAUSED,
    RUNNING,
    STATE_TRANSITIONS,
    WAITING_FOR_APPROVAL,
    AgentStatus,
    Begun,
    Handle,
    Handled,
    Handler,
    Message,
    View,
    Wake,
    is_before_approval,
)
from asterism.machines.flow_agent.memory import MAX_QUEUED, FlowMemory
from asterism.machines.flow_agent.states import Acting, Asked, Called, Closed, Idle, Unasked

UNCLEAR = "It was interrupted while it was under way, and may have finished. Run it again? (yes/no)"

ASIDE: tuple[Handler, ...] = ("pause", "resume", "on_interrupted")
"""What is called beside the conversation: what these are given is not what ``on_running`` is entered with."""

# -- what people say -------------------------------------------------------------------------------


def begin(memory: FlowMemory, event: Begun, turn: Turn) -> AgentStatus:
    """Begin with what was said first."""
    if memory.agent:
        raise Refused("this conversation has begun already")
    memory.agent, memory.tenant, memory.limits = event.agent, event.tenant, event.limits
    memory.requires_approval = event.requires_approval
    memory.ends_at = None if event.limits.wall_s is None else turn.at + event.limits.wall_s
    # What another run says has no time of its own.
    hear(memory, event.message if event.message.at else msgspec.structs.replace(event.message, at=turn.at))
    return INITIALIZING


def hear(memory: FlowMemory, message: Message) -> None:
    """Queue a message."""
    if len(memory.queue) >= MAX_QUEUED:
        raise Refused(f"{MAX_QUEUED} messages wait already; say it again later")
    memory.queue.append(message)
    memory.say(message.by, message.text)


def answer(memory: FlowMemory, event: Answered, turn: Turn) -> None:
    """An answer to the open question becomes the message that closes it."""
    if event.effect != memory.ask:
        raise not_asked(event)
    if event.verb == "edit" and not isinstance(event.value, dict):
        raise Refused("an edit gives fields by name, as a JSON object")
    if not event.withdrawn and event.verb == "cancel":
        want_cancel(memory, event.reason, turn)
    elif not event.withdrawn:
        values = event.value if isinstance(event.value, dict) else {}
        said = event.reason if event.verb == "reject" else "" if event.value is None or values else str(event.value)
        hear(memory, Message(text=said, by=turn.actor, at=turn.at, to=event.effect, verb=event.verb, values=values))
    memory.question = Closed(inquiry=event.effect)


def want_cancel(memory: FlowMemory, reason: str, turn: Turn) -> None:
    """Have it cancelled at the next chance, and its children now."""
    tell_children(memory.live_children(), Cancel(reason=reason), turn)
    memory.wants, memory.wanted_by = "cancel", why_cancelled(reason, turn)


# -- what handlers did -----------------------------------------------------------------------------


def check_path(memory: FlowMemory, state: AgentStatus, path: Iterable[AgentStatus]) -> None:
    """See that each transition of a handler is an edge of the table, and that none leads to RUNNING past an approval.

    Raises:
        IllegalTransition: one is not, or one does; nothing has changed.
    """
    called = "on_running" if isinstance(memory.handler, Idle) else memory.handler.handler
    is_unasked = memory.requires_approval and is_before_approval(called, state, memory.before)
    for target in path:
        if target is RUNNING and is_unasked:
            raise IllegalTransition("flow agent", state, "a transition to RUNNING that nobody has approved", [])
        if target not in STATE_TRANSITIONS[state]:
            raise IllegalTransition("flow agent", state, f"a transition to {target}", STATE_TRANSITIONS[state])
        state = target


def take_in(memory: FlowMemory, event: Handled, turn: Turn) -> None:
    """Take in what a handler did; its transitions follow one by one."""
    was, memory.handler = memory.handler, Idle()
    memory.resting.discard(event.effect)
    memory.path = [*memory.path, *event.path]
    if event.interrupted:
        has_acted = isinstance(was, Acting) or (isinstance(was, Called) and was.handler == "on_running")
        memory.last_act = "interrupted" if has_acted else "none"
        memory.prompt = UNCLEAR if memory.unclear else memory.prompt
        return
    if event.again:
        memory.last_act = "again"
    elif isinstance(was, Acting):
        memory.last_act = "ended"
    take_view(memory, event.view or memory.view, turn)
    memory.prompt = event.text or ("" if event.path else memory.prompt)
    memory.say("agent", event.text)
    memory.data = event.data or memory.data
    if event.code:
        memory.code, memory.reason = event.code, event.reason
    if event.leave:
        memory.wants, memory.wanted_by = "cancel", event.reason


def take_view(memory: FlowMemory, view: View, turn: Turn) -> None:
    """Take what a handler has left of the agent."""
    turn.touch("field", *memory.view.named, *view.named)
    memory.view = view


def step_on(memory: FlowMemory, state: AgentStatus, turn: Turn) -> AgentStatus:
    """Make the next of the transitions that have no entry yet; stay where there is none. After the last the handler that waits is woken."""
    now = arrive(memory, state, memory.path.pop(0), turn) if memory.path else state
    if memory.handling and not memory.path:  # these were of its way to RUNNING
        is_cancelled = memory.wants == "cancel"
        turn.perform(Wake(of=memory.handling, entered=not is_cancelled, cancel_requested=is_cancelled))
    return now


def arrive(memory: FlowMemory, was: AgentStatus, now: AgentStatus, turn: Turn) -> AgentStatus:
    """Be in a state, with what follows from it."""
    if now is PAUSED and was is not PAUSED:
        memory.before = was
    memory.paused = now is PAUSED and not memory.path
    if memory.unclear and now not in (RUNNING, PAUSED):
        memory.last_act = "none"
    if memory.unclear and now is RUNNING:  # resumed: what was asked is not answered yet
        memory.prompt = UNCLEAR
    if now in (COMPLETED, ERROR, CANCELLED):
        memory.path, memory.queue, memory.wants, memory.last_act = [], [], "", "none"
        memory.ends_at = None
        if now is COMPLETED:
            memory.code = "finished"
        elif now is ERROR:
            memory.code = memory.code or "error"
        else:
            memory.code = memory.code if memory.code in ("rejected", "expired", "wall_limit") else "cancelled"
            memory.reason = memory.reason or memory.wanted_by
        withdraw_ask(memory, turn)
        if was is not ERROR:
            tell_children(memory.live_children(), Cancel(reason=f"its conversation is {now}"), turn)
    return now


def withdraw_ask(memory: FlowMemory, turn: Turn) -> None:
    """Call the open question off, if there is one."""
    if isinstance(memory.question, Asked):
        call_off(memory.question.inquiry, turn)
        memory.question = Closed(inquiry=memory.question.inquiry)


# -- whose turn it is ------------------------------------------------------------------------------


def look(memory: FlowMemory, state: AgentStatus, turn: Turn) -> AgentStatus | None:
    """Look at the whole: make a transition, leave, call the handler whose turn it is, or ask the person."""
    if memory.path:
        return step_on(memory, state, turn)
    is_late = memory.ends_at is not None and turn.at >= memory.ends_at
    if is_late:
        run_out(memory, turn)
    if memory.handling or not memory.agent or (state is ERROR and _is_leaving(turn)):
        return state if is_late else None
    if isinstance(memory.question, Asked) and memory.question.expires_at is not None and turn.at >= memory.question.expires_at:
        memory.wants, memory.code, memory.reason = "cancel", "expired", "nobody answered in time"
    if memory.wants == "cancel":
        return leave(memory, state, turn)
    queued = len(memory.queue)
    if called := _whose_turn(memory, state):
        _call(memory, *called, turn)
        return state
    if not memory.ask and state not in (PAUSED, ERROR):
        _ask(memory, state, turn)
        return state
    return state if queued else None


def run_out(memory: FlowMemory, turn: Turn) -> None:
    """Its time is up: nobody is waited for, neither a person, nor a handler."""
    memory.code, memory.reason, memory.ends_at = "wall_limit", f"it took longer than {memory.limits.wall_s:g} s", None
    tell_children(memory.live_children(), Cancel(reason=memory.reason), turn)
    memory.wants = "cancel"
    if memory.handling:
        turn.perform(Withdraw(target=memory.handling))


def leave(memory: FlowMemory, state: AgentStatus, turn: Turn) -> AgentStatus:
    """Cancel: at once where the table has the edge, else through PAUSED."""
    memory.wants = ""
    memory.prompt = "It has been too long; this is cancelled." if memory.code in ("expired", "wall_limit") else "Cancelled."
    memory.say("agent", memory.prompt)
    if CANCELLED in STATE_TRANSITIONS[state]:
        return arrive(memory, state, CANCELLED, turn)
    memory.path = [CANCELLED]
    return arrive(memory, state, PAUSED, turn)


def _is_leaving(turn: Turn) -> bool:
    """True while a handler that was called off has not ended: one runs at a time."""
    return any(isinstance(turn.outstanding.get(effect), Handle) for effect in turn.abandoned)


def _whose_turn(memory: FlowMemory, state: AgentStatus) -> tuple[Handler, Message] | None:
    """The handler to call, and what it is given; None when only the person can go on."""
    if state is ERROR:
        was_told, memory.told = memory.told, True
        return None if was_told else ("on_error", memory.message)
    if memory.last_act == "again" or (state is RUNNING and memory.last_act == "none"):
        return "on_running", memory.message
    if memory.wants == "pause" and not (state is INITIALIZING and memory.queue):
        return "pause", Message(text=memory.wanted_by)
    if memory.wants == "resume":
        return "resume", Message()
    unclear = memory.unclear and state is RUNNING
    bound = state is WAITING_FOR_APPROVAL or unclear
    while memory.queue:
        message = memory.queue.pop(0)
        if message.confided and not memory.view.hush:  # said twice, perhaps: it answers no question that is not in confidence
            continue
        if not bound or (message.to and message.to == memory.shown):
            return "on_interrupted" if unclear else HANDLERS[state], message
    return None


def _call(memory: FlowMemory, handler: Handler, message: Message, turn: Turn) -> None:
    withdraw_ask(memory, turn)
    if handler == "pause":
        memory.before_prompt = memory.prompt
    memory.wants, memory.question = "", Unasked()
    memory.last_act = "interrupted" if memory.unclear else "none"
    memory.message = memory.message if handler in ASIDE else message
    memory.handler = Called(effect=turn.perform(Handle(handler=handler, message=message)), handler=handler)


def _ask(memory: FlowMemory, state: AgentStatus, turn: Turn) -> None:
    approval = state is WAITING_FOR_APPROVAL
    verbs: tuple[Verb, ...] = ("respond",)
    if approval or memory.unclear:
        verbs = ("approve", "edit", "reject", "respond") if approval else ("approve", "reject", "respond")
    elif memory.view.hush:
        verbs = ()  # a secret is told to the process that holds the conversation, and written nowhere
    limits = [limit for limit in (memory.limits.idle_s, memory.limits.approval_s if approval else None) if limit is not None]
    expires_at = turn.at + min(limits) if limits else 0.0
    asked = Ask(
        prompt=memory.prompt or f"{memory.agent.rpartition(':')[2]} waits for you.",
        subject={"agent": memory.agent, "fields": memory.view.shown},
        verbs=verbs,
        schema={"properties": dict.fromkeys(memory.view.secret, False)} if memory.view.secret else {},
        risk="medium" if approval or memory.unclear else "low",
        expires_at=expires_at,
    )
    memory.question = Asked(inquiry=turn.perform(asked), expires_at=expires_at or None)
