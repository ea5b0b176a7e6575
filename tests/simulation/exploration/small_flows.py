"""Small worlds of a flow agent: every order of words, answers, handlers, pauses, cancels and crashes of one that collects a few fields.

A handler is what it leaves behind: its transitions and its view, one way to go on and one for each way to go wrong. Not here: what
words mean (``flows``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from asterism.conversation.machine.events import (
    CANCELLED,
    COMPLETED,
    ERROR,
    PAUSED,
    RUNNING,
    STATE_TRANSITIONS,
    WAITING_FOR_APPROVAL,
    WAITING_FOR_INPUT,
    AgentStatus,
    AgentView,
    CallHandler,
    ChildRequested,
    ConversationLimits,
    ConversationStarted,
    HandlerEnded,
    HandlerNotified,
    Message,
    MessageReceived,
    NotifyHandler,
    RunningEntered,
)
from asterism.conversation.machine.memory import FlowMemory, HandlerRunning
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.engine.control.children import ChildBlocked, ChildEnded, ChildSignaled, SignalChild, StartChild
from asterism.engine.control.run_control import Answered, AskPerson, OwnershipAcquired
from asterism.engine.kernel.machine import Effect, Event, StartRequest, kind_of
from asterism.engine.kernel.run import Run
from asterism.testing.invariants import InvariantViolated
from tests.simulation.exploration.small_run import Budget, Move, Situation, SmallRun

KEY = "below"
BELOW = StartChild(machine="flow agent", start=StartRequest(definition={"agent": "small:Below"}))


class FlowSpace(SmallRun[FlowMemory]):
    """What can happen to one conversation.

    Args:
        fields: how many it asks for, one by one.
        budget: how much trouble there may be; words that come to nothing are ``edits``.
        approval: a person must say yes before it acts.
        child: to act is to start another conversation, and to wait for its end.
    """

    exits = frozenset({(ERROR, CANCELLED)})

    def __init__(self, fields: int, budget: Budget, *, approval: bool = False, child: bool = False) -> None:
        super().__init__(FLOW_AGENT, budget)
        self._fields = fields
        self._approval = approval
        self._child = child

    def first(self) -> Event:
        """Somebody says hello."""
        return ConversationStarted(agent="small:Agent", message=Message(text="hello"), limits=ConversationLimits())

    def name_of(self, effect: Effect) -> str:
        """The handler, the one that is told, the question, or what goes to the child."""
        if isinstance(effect, CallHandler):
            return f"{effect.handler} {effect.message.text}{effect.message.verb}"
        if isinstance(effect, SignalChild):
            return f"{effect.command['type']} goes down"
        return f"question: {', '.join(effect.verbs)}" if isinstance(effect, AskPerson) else kind_of(effect)

    def remembered(self, run: Run[FlowMemory]) -> dict[str, Any]:
        """All but what was said so far, which no rule reads (as for the agent, shown by a walk with it)."""
        facts = super().remembered(run)
        del facts["history"]
        return facts

    def outcomes(self, state: Situation[FlowMemory], effect_id: str, effect: Effect) -> Iterator[Move[FlowMemory]]:
        """What a handler may do, a person say, and a child come to."""
        if isinstance(effect, NotifyHandler):
            yield "the handler is told", lambda: self.take(state, [HandlerNotified(effect_id=effect_id)])
        elif isinstance(effect, SignalChild):
            yield f"{self.name_of(effect)}: done", lambda: self.take(state, [ChildSignaled(effect_id=effect_id)])
        elif isinstance(effect, StartChild):
            for outcome, spend in (("finished", ""), ("failed", "failures"), ("cancelled", "" if _is_over(state.run) else "failures")):
                if not spend or getattr(state.left, spend):
                    ended = ChildEnded(effect_id=effect_id, outcome=outcome)  # type: ignore[arg-type]
                    yield f"the child is {outcome}", lambda ended=ended, spend=spend: self.take(state, [ended], spend=spend)  # type: ignore[misc]
        elif isinstance(effect, AskPerson):
            for verb in effect.verbs:
                spend = "edits" if verb == "edit" or (verb == "respond" and "approve" in effect.verbs) else ""
                if not spend or getattr(state.left, spend):
                    answered = Answered(
                        effect_id=effect_id, verb=verb, value={"f0": 2} if verb == "edit" else "said" if verb == "respond" else None
                    )
                    yield verb, lambda answered=answered, spend=spend: self.take(state, [answered], spend=spend)  # type: ignore[misc]
        elif isinstance(effect, CallHandler) and not state.run.memory.transitions:  # until its transitions are in, it waits
            yield from self._handled(state, effect_id, effect)

    def _handled(self, state: Situation[FlowMemory], effect_id: str, effect: CallHandler) -> Iterator[Move[FlowMemory]]:
        if state.called_off:
            off = HandlerEnded(effect_id=effect_id, view=state.run.memory.view)
            yield f"{effect.handler}: is called off", lambda: self.take(state, [off])
        for told, event, spend in self._done(state.run, effect_id, effect):
            if state.called_off and isinstance(event, RunningEntered | ChildRequested):
                continue
            if getattr(state.left, spend) if spend else not state.asleep:
                yield f"{effect.handler}: {told}", lambda event=event, spend=spend: self.take(state, [event], spend=spend)  # type: ignore[misc]

    def take(self, state: Situation[FlowMemory], events: Sequence[Event], **how: Any) -> Situation[FlowMemory]:
        """The state after these events: who has had something journaled sleeps until it is woken with what it waits for."""
        after, was = super().take(state, events, **how), state.run
        memory = after.run.memory
        after.asleep = state.asleep and memory.handler_effect == was.memory.handler_effect
        after.called_off = state.called_off and memory.handler_effect == was.memory.handler_effect
        for event in events:
            if isinstance(event, RunningEntered | ChildRequested):
                after.asleep = True
            elif isinstance(event, HandlerNotified):
                wake = was.outstanding[event.effect_id]
                if isinstance(wake, NotifyHandler) and wake.effect_id == memory.handler_effect:
                    after.asleep, after.called_off = False, after.called_off or wake.cancel_requested
            elif isinstance(event, OwnershipAcquired):  # it is called again, and knows how things stand
                after.asleep, after.called_off = False, bool(memory.handler_effect) and memory.requested_action == "cancel"
        return after

    def _done(self, run: Run[FlowMemory], effect_id: str, effect: CallHandler) -> Iterator[tuple[str, Event, str]]:
        """What a handler may do next: in words, as an event, and what it takes of the budget."""
        memory, verb = run.memory, effect.message.verb
        yield (
            "raises",
            HandlerEnded(effect_id=effect_id, transitions=(ERROR,) if run.state != ERROR else (), code="error", reason="no"),
            "failures",
        )
        if isinstance(memory.handler, HandlerRunning):
            yield "was interrupted", HandlerEnded(effect_id=effect_id, interrupted=True), "failures"
            yield "asks for more", HandlerEnded(effect_id=effect_id, transitions=(WAITING_FOR_INPUT,), view=AgentView()), "edits"
            yield from self._acted(memory, effect_id)
            return
        match effect.handler:
            case "on_initializing" | "on_waiting_for_input":
                yield from self._collected(run, effect_id)
                yield "does not understand", HandlerEnded(effect_id=effect_id, text="what?"), "edits"
            case "on_waiting_for_approval" if verb == "reject":
                yield "takes a no", HandlerEnded(effect_id=effect_id, transitions=(CANCELLED,), code="rejected"), ""
            case "on_waiting_for_approval" if verb == "approve":
                yield "takes a yes", RunningEntered(effect_id=effect_id, transitions=(RUNNING,), view=memory.view), ""
            case "on_waiting_for_approval":
                yield "takes a change", HandlerEnded(effect_id=effect_id, transitions=(WAITING_FOR_APPROVAL,)), ""
                yield "does not understand", HandlerEnded(effect_id=effect_id), ""
            case "on_running":
                yield "enters", RunningEntered(effect_id=effect_id, view=memory.view), ""
            case "pause":
                yield "pauses", HandlerEnded(effect_id=effect_id, transitions=(PAUSED,)), ""
            case "resume":
                yield "resumes", HandlerEnded(effect_id=effect_id, transitions=(memory.before,) if run.state == PAUSED else ()), ""
            case "on_interrupted" if verb == "approve":
                yield "again", HandlerEnded(effect_id=effect_id, reenter=True), ""
            case "on_interrupted" if verb == "reject":
                yield "leaves it", HandlerEnded(effect_id=effect_id, transitions=(ERROR,), code="interrupted", reason="no"), ""
            case _:
                yield "does nothing", HandlerEnded(effect_id=effect_id), ""

    def _acted(self, memory: FlowMemory, effect_id: str) -> Iterator[tuple[str, Event, str]]:
        """How what it does may come out: at once, or with its child, which it may leave, or ask for again after a crash."""
        child = memory.children.get(KEY)
        done = HandlerEnded(effect_id=effect_id, transitions=(COMPLETED,), text="done")
        wanted = ChildRequested(effect_id=effect_id, key=KEY, start=BELOW, resumable=True)
        if not self._child or (child and child.ended and child.ended.outcome == "finished"):
            yield "done", done, ""
        elif child is None:
            yield "wants a child", wanted, ""
        elif child.ended:
            yield "gives up", HandlerEnded(effect_id=effect_id, transitions=(ERROR,), code="error", reason="no"), ""
        else:
            yield "done without it", done, "edits"
            yield "wants its child again", wanted, "edits"

    def _collected(self, run: Run[FlowMemory], effect_id: str) -> Iterator[tuple[str, Event, str]]:
        memory = run.memory
        fields = {**memory.view.fields, f"f{len(memory.view.fields)}": 1}
        if len(fields) < self._fields:
            yield "asks", HandlerEnded(effect_id=effect_id, transitions=(WAITING_FOR_INPUT,), view=AgentView(fields=fields)), ""
        elif self._approval:
            yield (
                "asks for a yes",
                HandlerEnded(effect_id=effect_id, transitions=(WAITING_FOR_APPROVAL,), view=AgentView(fields=fields)),
                "",
            )
        else:
            yield "enters", RunningEntered(effect_id=effect_id, transitions=(RUNNING,), view=AgentView(fields=fields)), ""

    def commands(self, state: Situation[FlowMemory]) -> Iterator[Move[FlowMemory]]:
        """Words that answer nothing, and whether its child waits for people."""
        for child in state.run.memory.live_children():
            rested = ChildBlocked(effect_id=child, blocked=child not in state.run.memory.blocked_children)
            yield f"the child {'rests' if rested.blocked else 'goes on'}", lambda rested=rested: self.take(state, [rested])  # type: ignore[misc]
        if state.left.live_edits and MessageReceived in state.run.machine.table[state.run.state]:
            yield "somebody says something", lambda: self.take(state, [MessageReceived(text="by the way")], spend="live_edits")

    def watch(self, run: Run[FlowMemory]) -> Callable[[Event], None]:
        """Each change is an edge of the table, one handler and one child at a time, no act without its yes, no cancel forgotten."""
        was, wanted = run.state, run.memory.requested_action

        def look_after(_: Event) -> None:
            handlers = [key for key, it in run.outstanding.items() if isinstance(it, CallHandler) and key not in run.cancelled_effects]
            if run.state != was and AgentStatus(run.state) not in STATE_TRANSITIONS[AgentStatus(was)]:
                raise InvariantViolated(4, f"from {was} to {run.state}, which is no edge of the table", run.history)
            if len(handlers) > 1:
                raise InvariantViolated(2, f"{len(handlers)} handlers run at once", run.history)
            if len(children := [key for key, it in run.outstanding.items() if isinstance(it, StartChild)]) > 1:
                raise InvariantViolated(2, f"{len(children)} children run at once", run.history)
            if wanted == "cancel" and run.memory.requested_action in ("pause", "resume"):
                raise InvariantViolated(8, f"it was to be cancelled, and now it is to {run.memory.requested_action}", run.history)
            if self._approval and run.state == RUNNING and was not in (WAITING_FOR_APPROVAL, RUNNING, PAUSED):
                raise InvariantViolated(9, f"it runs, from {was}, without a yes", run.history)

        return look_after


def _is_over(run: Run[FlowMemory]) -> bool:
    """Whether its child has been, or will be, told to cancel."""
    return run.machine.is_terminal(run.state) or run.memory.requested_action == "cancel"
