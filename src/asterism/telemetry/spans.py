"""What a transition and an effect look like in a trace: names, attributes, parents, times.

A span never holds an argument, a result, a prompt or the text of an error: those are the journal's, and may be secret.

Nobody can keep a span open across processes, so each run hangs under a parent that was never written: its ids are derived
from the run's, so that every process that ever drives the run writes into one trace. That parent says *sampled*; to keep
fewer traces take a sampler that goes by the trace's id (``traceidratio``), about which all those processes agree.
"""

from __future__ import annotations

import hashlib

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    NoOpTracerProvider,
    ProxyTracerProvider,
    Span,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    TracerProvider,
)
from opentelemetry.util.types import AttributeValue

from asterism.kernel.journal import Entry
from asterism.kernel.machine import Effect, EffectResult, kind_of, run_id_of
from asterism.machines.children import ChildEnded, ChildSignaled, SignalChild, StartChild, child_run_id
from asterism.machines.constellation_agent.events import AskPlanner, AttemptEnded, Dispatch, Planned, PlanningFailed
from asterism.machines.run_control import Answered, AskPerson, TransitionFailed

LEFT_OPEN = "left open"
"""Outcome of an effect whose own outcome this process will not see."""


class UnderWay:
    """An effect without an outcome.

    Attributes:
        effect: what is being done; None where only its end is known.
        since: when it was asked for, or when this process took it over, in seconds since the epoch.
        asked_here: which of the two.
        span: its span, open.
    """

    __slots__ = ("asked_here", "effect", "since", "span")

    def __init__(self, effect: Effect | None, since: float, span: Span, *, asked_here: bool) -> None:
        self.effect = effect
        self.since = since
        self.span = span
        self.asked_here = asked_here

    def settle(self, event: EffectResult, at: float) -> None:
        """Its outcome was taken."""
        self.span.set_attribute("asterism.outcome", outcome_of(event))
        failed = isinstance(event, ChildEnded) and event.outcome != "finished"
        if failed or isinstance(event, PlanningFailed | TransitionFailed) or (isinstance(event, AttemptEnded) and event.error is not None):
            self.span.set_status(Status(StatusCode.ERROR, outcome_of(event)))
        self.span.end(nanoseconds(at))

    def call_off(self) -> None:
        """Its outcome will be that it was called off, if it has no other by then."""
        self.span.set_attribute("asterism.called_off", True)  # noqa: FBT003 - the value of an attribute

    def leave(self, at: float) -> None:
        """Its outcome will be taken elsewhere, or later."""
        self.span.set_attribute("asterism.outcome", LEFT_OPEN)
        self.span.end(nanoseconds(at))


class Spans:
    """Writes spans to a tracer provider (None: the global one), and takes no trouble over them while there is none.

    Attributes:
        on: whether there is one.
    """

    def __init__(self, tracer_provider: TracerProvider | None) -> None:
        self._provider = tracer_provider
        self._tracer = trace.get_tracer("asterism", tracer_provider=tracer_provider)
        self.on = False

    def look(self) -> None:
        """See whether somebody has configured a provider by now."""
        provider = self._provider or trace.get_tracer_provider()
        self.on = not isinstance(provider, ProxyTracerProvider | NoOpTracerProvider)

    def transition(self, entry: Entry, parent: Context) -> Span:
        """The span of an entry: a moment. A noted event is marked as one."""
        if not self.on:
            return INVALID_SPAN
        at = nanoseconds(entry.at)
        attributes: dict[str, AttributeValue] = {
            "asterism.kind": "transition",
            "asterism.run": entry.run_id,
            "asterism.seq": entry.seq,
            "asterism.actor": entry.actor,
            "asterism.state": str(entry.state),
        }
        if entry.note:
            attributes["asterism.note"] = True
        span = self._tracer.start_span(kind_of(entry.event), parent, attributes=attributes, start_time=at)
        span.end(at)
        return span

    def effect(self, effect_id: str, effect: Effect | None, parent: Context, at: float, *, name: str = "") -> Span:
        """The span of an effect, open; named after it."""
        if not self.on:
            return INVALID_SPAN
        attributes: dict[str, AttributeValue] = {
            "asterism.kind": "effect",
            "asterism.run": run_id_of(effect_id),
            "asterism.effect_id": effect_id,
        }
        if isinstance(effect, Dispatch):
            attributes["asterism.task"] = effect.task_id
            attributes["asterism.device"] = effect.device
            attributes["asterism.skill"] = effect.skill
            attributes["asterism.attempt"] = effect.attempt
        elif isinstance(effect, AskPerson):
            attributes["asterism.task"] = str(effect.subject.get("task_id", ""))
        elif isinstance(effect, StartChild):
            attributes["asterism.child"] = child_run_id(effect_id)
        elif effect is not None and effect.cancels:
            attributes["asterism.withdraws"] = effect.cancels
        name = name or (kind_of(effect) if effect else "effect")
        return self._tracer.start_span(name, parent, attributes=attributes, start_time=nanoseconds(at))


def nanoseconds(at: float) -> int:
    """Seconds since the epoch as OpenTelemetry counts them."""
    return round(at * 1e9)


def run_context(root: str) -> Context:
    """The context under which a run's spans hang, derived from the id of the root of its tree of runs."""
    digest = hashlib.sha256(root.encode()).digest()
    parent = SpanContext(
        trace_id=int.from_bytes(digest[:16], "big"),
        span_id=int.from_bytes(digest[16:24], "big"),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(NonRecordingSpan(parent), Context())


def under(span: Span, run: Context) -> Context:
    """The context of that span's children; the run's, where there was no provider yet when the span should have begun."""
    return run if span is INVALID_SPAN else trace.set_span_in_context(span, Context())


def effect_name(event: EffectResult) -> str:
    """The kind of effect an outcome is of, where the effect itself is not at hand."""
    match event:
        case AttemptEnded():
            return kind_of(Dispatch)
        case Planned() | PlanningFailed():
            return kind_of(AskPlanner)
        case Answered():
            return kind_of(AskPerson)
        case ChildEnded():
            return kind_of(StartChild)
        case ChildSignaled():
            return kind_of(SignalChild)
        case _:
            return "effect"


def outcome_of(event: EffectResult) -> str:
    """How an effect ended, in one word that says nothing of what it returned."""
    match event:
        case AttemptEnded():
            return event.error.code if event.error else "completed"
        case PlanningFailed():
            return event.code
        case ChildEnded():
            return event.outcome
        case Answered():
            return "withdrawn" if event.cancelled else event.verb
        case _:
            return kind_of(event)
