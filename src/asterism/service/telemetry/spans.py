"""Transitions and effects as spans of a trace: names, attributes, parents, times.

A span never contains an argument, a result, a prompt or the text of an error: these may be secret,
and stay in the journal.

No span can stay open across processes. So each run has a parent span that is never written: its ids
are derived from the run's id, and every process that drives the run writes to the same trace. That
parent is marked as *sampled*. To record fewer traces, use a sampler that decides by the trace's id
(``traceidratio``): all these processes then decide alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
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

from asterism.constellation.machine.events import AskPlanner, AttemptEnded, Dispatch, Planned, PlanningFailed
from asterism.engine.control.children import ChildEnded, ChildSignaled, SignalChild, StartChild, child_run_id
from asterism.engine.control.run_control import Answered, AskPerson, TransitionFailed
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect, EffectResult, kind_of, run_id_of

LEFT_OPEN = "left open"
"""Outcome of an effect whose result this process will not see."""


class UnderWay(msgspec.Struct, eq=False):
    """An effect without a result.

    Attributes:
        effect: the effect; None if only its end is known.
        since: when it was asked for, or when this process took it over, in seconds since the epoch.
        begun_at: when a device began it; None while it waits in a queue.
        asked_here: True if this process asked for it, False if it took the run over later.
        span: its open span.
    """

    effect: Effect | None
    since: float
    span: Span
    asked_here: bool
    begun_at: float | None = None

    def __post_init__(self) -> None:
        self.begun_at = None if isinstance(self.effect, Dispatch) and self.effect.queued else self.since

    def settle(self, event: EffectResult, at: float) -> None:
        """End the span with the result of the effect."""
        self.span.set_attribute("asterism.outcome", outcome_of(event))
        failed = isinstance(event, ChildEnded) and event.outcome != "finished"
        if failed or isinstance(event, PlanningFailed | TransitionFailed) or (isinstance(event, AttemptEnded) and event.error is not None):
            self.span.set_status(Status(StatusCode.ERROR, outcome_of(event)))
        self.span.end(nanoseconds(at))

    def note_begin(self, begun_at: float | None, at: float) -> None:
        """Note that a device has begun the attempt, or (with None) that it waits in a queue."""
        self.begun_at = begun_at
        self.span.add_event("queued" if begun_at is None else "begun", timestamp=nanoseconds(at))

    def call_off(self) -> None:
        """Mark the effect as being cancelled; it may still return a result of its own."""
        self.span.set_attribute("asterism.called_off", True)  # noqa: FBT003 - the value of an attribute

    def leave(self, at: float) -> None:
        """End the span of an effect whose result is recorded later, or by another process."""
        self.span.set_attribute("asterism.outcome", LEFT_OPEN)
        self.span.end(nanoseconds(at))


class Spans:
    """Writes spans to a tracer provider (None: the global one); does nothing if none is configured.

    Attributes:
        on: True if a provider is configured.
    """

    def __init__(self, tracer_provider: TracerProvider | None) -> None:
        self._provider = tracer_provider
        self._tracer = trace.get_tracer("asterism", tracer_provider=tracer_provider)
        self.on = False

    def look(self) -> None:
        """Check if a provider is configured by now."""
        provider = self._provider or trace.get_tracer_provider()
        self.on = not isinstance(provider, ProxyTracerProvider | NoOpTracerProvider)

    def transition(self, entry: Entry, parent: Context) -> Span:
        """Write the span of an entry, which has no duration. A noted event is marked."""
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
        """Open the span of an effect, with its kind as the name."""
        if not self.on:
            return INVALID_SPAN
        attributes: dict[str, AttributeValue] = {
            "asterism.kind": "effect",
            "asterism.run": run_id_of(effect_id),
            "asterism.effect_id": effect_id,
        }
        if isinstance(effect, Dispatch):
            attributes["asterism.task"] = effect.task_id
            attributes["asterism.device"] = effect.device_id
            attributes["asterism.skill"] = effect.skill
            attributes["asterism.attempt"] = effect.number
        elif isinstance(effect, AskPerson):
            attributes["asterism.task"] = str(effect.subject.get("task_id", ""))
        elif isinstance(effect, StartChild):
            attributes["asterism.child"] = child_run_id(effect_id)
        elif effect is not None and effect.cancels:
            attributes["asterism.withdraws"] = effect.cancels
        name = name or (kind_of(effect) if effect else "effect")
        return self._tracer.start_span(name, parent, attributes=attributes, start_time=nanoseconds(at))


def nanoseconds(at: float) -> int:
    """Return seconds since the epoch as the nanoseconds of OpenTelemetry."""
    return round(at * 1e9)


def run_context(root: str) -> Context:
    """Return the context of a run's spans, derived from the id of the root of its tree."""
    digest = hashlib.sha256(root.encode()).digest()
    parent = SpanContext(
        trace_id=int.from_bytes(digest[:16], "big"),
        span_id=int.from_bytes(digest[16:24], "big"),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(NonRecordingSpan(parent), Context())


def under(span: Span, run: Context) -> Context:
    """Return the context of a span's children; the run's if the span was not recorded."""
    return run if span is INVALID_SPAN else trace.set_span_in_context(span, Context())


_EFFECT_OF: Mapping[type[EffectResult], type[Effect]] = {
    AttemptEnded: Dispatch,
    Planned: AskPlanner,
    PlanningFailed: AskPlanner,
    Answered: AskPerson,
    ChildEnded: StartChild,
    ChildSignaled: SignalChild,
}


def effect_name(event: EffectResult) -> str:
    """Return the kind of effect that a result closes, from its type; for a result whose effect is unknown."""
    effect = _EFFECT_OF.get(type(event))
    return kind_of(effect) if effect else "effect"


def outcome_of(event: EffectResult) -> str:
    """Return the end of an effect as one word without its content."""
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
