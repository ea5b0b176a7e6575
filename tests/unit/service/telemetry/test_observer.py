"""The spans of a run: their parents, their attributes, and the content that they never have."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import StatusCode

from asterism.constellation.machine.events import AttemptBegun, AttemptQueued
from asterism.engine.control.run_control import Cancel, OwnershipAcquired
from asterism.service.telemetry import observer
from asterism.service.telemetry.observer import Telemetry
from tests.support.constellation_harness import Agent
from tests.support.constellations import plan


class Told:
    """A telemetry that observes one agent's run, with the spans that it wrote."""

    def __init__(self, agent: Agent, *, live: bool = True, **provider: Any) -> None:
        self.agent = agent
        self.seen = 0
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **provider)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.telemetry = Telemetry(lambda _: agent.run if live else None, lambda: agent.now, tracer_provider=self.provider)

    def tell(self) -> None:
        self.telemetry.appended("r", self.agent.entries[self.seen :])
        self.seen = len(self.agent.entries)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def transition(self, seq: int) -> ReadableSpan:
        return next(span for span in self.spans if said(span, "seq") == seq)

    def effect(self, effect_id: str) -> ReadableSpan:
        return next(span for span in self.spans if said(span, "effect_id") == effect_id)


def said(span: ReadableSpan, name: str) -> Any:
    return (span.attributes or {}).get(f"asterism.{name}")


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    found: int = span.parent.span_id
    return found


def id_of(span: ReadableSpan) -> int:
    found: int = span.context.span_id
    return found


RUN_DIGEST = hashlib.sha256(b"r").digest()
RUN = int.from_bytes(RUN_DIGEST[16:24], "big")
"""Span id of the parent that every process derives for run ``r``."""


@pytest.fixture
def agent() -> Agent:
    return Agent(plan("a b", "a>b", device="s", skill="again"))


def test_effects_are_children_of_their_transition_and_parents_of_their_results(agent: Agent) -> None:
    agent.ends("a")
    agent.ends("b")
    told = Told(agent)
    told.tell()
    assert len(told.spans) == len(agent.entries) + 2
    submitted, drained, ended = told.transition(1), told.transition(2), told.transition(3)
    assert [it.name for it in (submitted, drained, ended)] == ["constellation_submitted", "batch_ended", "attempt_ended"]
    assert [parent_of(submitted), parent_of(drained)] == [RUN, RUN]
    assert parent_of(told.effect("r:2.0")) == id_of(drained)
    assert parent_of(ended) == id_of(told.effect("r:2.0"))
    assert {said(span, "kind") for span in told.spans} == {"transition", "effect"}


def test_spans_say_who_what_and_where(agent: Agent) -> None:
    agent.ends("a")
    told = Told(agent)
    told.tell()
    assert dict(told.transition(3).attributes or {}) == {
        "asterism.kind": "transition",
        "asterism.run": "r",
        "asterism.seq": 3,
        "asterism.actor": "me",
        "asterism.state": "CONTINUE",
    }
    assert dict(told.effect("r:2.0").attributes or {}) == {
        "asterism.kind": "effect",
        "asterism.run": "r",
        "asterism.effect_id": "r:2.0",
        "asterism.task": "a",
        "asterism.device": "s",
        "asterism.skill": "again",
        "asterism.attempt": 1,
        "asterism.outcome": "completed",
    }


def test_times_are_those_of_the_entries(agent: Agent) -> None:
    agent.now = 1234.5
    agent.ends("a")
    told = Told(agent)
    told.tell()
    effect, ended = told.effect("r:2.0"), told.transition(3)
    assert (effect.start_time, effect.end_time) == (1000_000_000_000, 1234_500_000_000)
    assert (ended.start_time, ended.end_time) == (1234_500_000_000, 1234_500_000_000)


def test_the_trace_of_a_run_follows_from_its_id(agent: Agent) -> None:
    told, again = Told(agent), Told(agent)
    told.tell()
    again.tell()
    assert {span.context.trace_id for span in (*told.spans, *again.spans)} == {int.from_bytes(RUN_DIGEST[:16], "big")}


def test_runs_of_one_tree_are_one_trace(agent: Agent) -> None:
    told = Told(agent)
    starters = {"r.2.0": "r:2.0", "r.2.0.5.0": "r.2.0:5.0"}
    told.telemetry = Telemetry(lambda _: None, lambda: 0.0, starter_of=lambda run: starters.get(run, ""), tracer_provider=told.provider)
    told.telemetry.appended("r.2.0.5.0", agent.entries)
    assert {span.context.trace_id for span in told.spans} == {int.from_bytes(RUN_DIGEST[:16], "big")}


def test_a_child_hangs_under_the_effect_that_started_it(agent: Agent) -> None:
    told = Told(agent)
    told.telemetry = Telemetry(
        lambda _: None, lambda: 0.0, starter_of=lambda run: "r:2.0" if run == "r.2.0" else "", tracer_provider=told.provider
    )
    told.telemetry.appended("r", agent.entries)
    told.telemetry.appended("r.2.0", agent.entries[:1])
    agent.ends("a")
    told.telemetry.appended("r", agent.entries[2:])
    submitted = [span for span in told.spans if span.name == "constellation_submitted"]
    assert [parent_of(span) for span in submitted] == [RUN, id_of(told.effect("r:2.0"))]


def test_a_failed_attempt_is_an_error_that_names_its_code_only(agent: Agent) -> None:
    agent.ends("a", error="timeout")
    told = Told(agent)
    told.tell()
    status = told.effect("r:2.0").status
    assert (status.status_code, status.description) == (StatusCode.ERROR, "timeout")
    assert said(told.effect("r:2.0"), "outcome") == "timeout"


def test_a_question_to_a_person_ends_with_the_answer() -> None:
    agent = Agent(plan("a", requires_approval=True))
    agent.answers("reject")
    told = Told(agent)
    told.tell()
    asked = told.effect("r:2.0")
    assert (asked.name, said(asked, "task"), said(asked, "outcome"), asked.status.status_code) == (
        "ask_person",
        "a",
        "reject",
        StatusCode.UNSET,
    )


def test_a_noted_event_is_marked_and_hangs_under_the_run(agent: Agent) -> None:
    agent.ends("a")
    late = agent.take(agent.entries[2].event)
    told = Told(agent)
    told.tell()
    assert late is not None
    assert said(told.transition(late.seq), "note") is True
    assert parent_of(told.transition(late.seq)) == RUN
    assert [said(span, "note") for span in told.spans].count(True) == 1


def test_a_cancelled_effect_is_marked(agent: Agent) -> None:
    agent.take(Cancel())
    agent.finish_cancellations()
    told = Told(agent)
    told.tell()
    attempt, withdrawal = told.effect("r:2.0"), told.effect("r:3.0")
    assert (said(attempt, "called_off"), said(attempt, "outcome")) == (True, "interrupted")
    assert (said(withdrawal, "withdraws"), said(withdrawal, "outcome")) == ("r:2.0", "effect_cancelled")
    assert len(told.spans) == len(agent.entries) + 2


def test_after_a_crash_open_effects_are_children_of_the_run_from_the_takeover_on(agent: Agent) -> None:
    before = Told(agent)
    before.tell()
    after = Told(agent)
    after.seen = before.seen
    agent.now = 2000.0
    agent.take(OwnershipAcquired(epoch=2, owner="the next"))
    after.tell()
    agent.ends("a")
    agent.ends("b")
    after.tell()
    left = after.effect("r:2.0")
    assert (parent_of(left), said(left, "task"), said(left, "outcome")) == (RUN, "a", "completed")
    assert left.start_time == 2000_000_000_000
    assert parent_of(after.transition(4)) == id_of(left)
    assert len(before.spans) + len(after.spans) == len(agent.entries) + 2


def test_the_end_of_an_effect_that_nothing_is_known_of_has_a_span_all_the_same(agent: Agent) -> None:
    agent.ends("a")
    told = Told(agent, live=False)
    told.seen = 2
    told.tell()
    unknown = told.effect("r:2.0")
    assert (unknown.name, parent_of(unknown), said(unknown, "outcome")) == ("dispatch", RUN, "completed")


def test_closing_leaves_open_what_is_under_way(agent: Agent) -> None:
    told = Told(agent)
    told.tell()
    agent.now = 1010.0
    told.telemetry.close()
    told.telemetry.close()
    left = told.effect("r:2.0")
    assert (said(left, "outcome"), left.end_time) == ("left open", 1010_000_000_000)
    assert told.telemetry._runs == {}


@pytest.mark.parametrize("at_once", [True, False], ids=["answered before the claim", "answered after"])
def test_a_run_that_is_released_and_acquired_again_here_keeps_its_spans(*, at_once: bool) -> None:
    agent = Agent(plan("a", requires_approval=True))
    told = Told(agent)
    told.tell()
    agent.take(OwnershipAcquired(epoch=2, owner="me again"))
    if not at_once:
        told.tell()
    agent.answers("approve")
    told.tell()
    assert parent_of(told.effect("r:2.0")) == id_of(told.transition(2))
    assert len([span for span in told.spans if said(span, "effect_id") == "r:2.0"]) == 1


def test_what_another_process_has_settled_meanwhile_is_left_open(agent: Agent) -> None:
    told = Told(agent)
    told.tell()
    agent.ends("a")
    told.seen = len(agent.entries)
    agent.take(OwnershipAcquired(epoch=3, owner="me again"))
    told.tell()
    assert said(told.effect("r:2.0"), "outcome") == "left open"
    agent.ends("b")
    told.tell()
    assert (said(told.effect("r:4.0"), "outcome"), parent_of(told.effect("r:4.0"))) == ("completed", RUN)


def test_a_run_is_forgotten_when_nothing_is_under_way(agent: Agent) -> None:
    told = Told(agent)
    told.tell()
    assert list(told.telemetry._runs) == ["r"]
    agent.ends("a")
    agent.ends("b")
    told.tell()
    assert told.telemetry._runs == {}


def test_of_too_many_runs_the_one_that_was_silent_longest_is_left(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "MAX_RUNS", 2)
    told = Told(agent, live=False)
    for run in ("r1", "r2", "r1", "r3"):
        told.telemetry.appended(run, agent.entries)
    assert list(told.telemetry._runs) == ["r1", "r3"]
    assert [said(span, "outcome") for span in told.spans if said(span, "kind") == "effect"] == ["left open"]


def test_a_device_that_begins_an_attempt_is_an_event_of_its_span(agent: Agent) -> None:
    told = Told(agent)
    told.tell()
    agent.batch(AttemptQueued(of="r:2.0"))
    agent.batch(AttemptBegun(of="r:2.0"))
    agent.ends("a")
    told.tell()
    assert [event.name for event in told.effect("r:2.0").events] == ["queued", "begun"]


def test_a_provider_that_is_configured_later_is_used_from_the_next_takeover(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(agent)
    late = Telemetry(lambda _: agent.run, lambda: agent.now)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: told.provider)
    monkeypatch.setattr(late._spans, "_tracer", told.provider.get_tracer("asterism"))
    late.appended("r", agent.entries)
    assert not any(told.spans)
    agent.take(OwnershipAcquired(epoch=2, owner="me"))
    late.appended("r", agent.entries[2:])
    agent.ends("a")
    late.appended("r", agent.entries[3:])
    assert [span.name for span in told.spans] == ["ownership_acquired", "dispatch", "attempt_ended", "batch_ended"]
    assert parent_of(told.transition(4)) == id_of(told.effect("r:2.0"))


def test_an_effect_begun_before_there_was_a_provider_does_not_make_another_trace(agent: Agent) -> None:
    agent.ends("a")
    told = Told(agent)
    told.telemetry._spans.on = False
    told.telemetry.appended("r", agent.entries[:2])
    told.telemetry._spans.on = True
    told.telemetry.appended("r", agent.entries[2:])
    assert parent_of(told.transition(3)) == RUN


def test_a_sampler_by_trace_id_is_obeyed(agent: Agent) -> None:
    none, every = Told(agent, sampler=TraceIdRatioBased(0.0)), Told(agent, sampler=TraceIdRatioBased(1.0))
    agent.ends("a")
    none.tell()
    every.tell()
    assert none.spans == ()
    assert len(every.spans) == len(agent.entries) + 1


def test_no_span_holds_an_argument_a_result_a_prompt_or_an_error_text() -> None:
    agent = Agent(
        plan("a b", "a>b", device="s", skill="once", name="SECRET-name", description="SECRET-words", inputs={"x": "SECRET-argument"})
    )
    agent.batch(agent.end_of("a", result={"y": "SECRET-result"}))
    agent.ends("b", error="raised")
    asking = Agent(plan("a", requires_approval=True, name="SECRET-prompt", inputs={"x": "SECRET-shown"}), replan="always")
    asking.answers("reject", reason="SECRET-reason")
    asking.planning_fails(reason="SECRET-planning")
    for each in (agent, asking):
        told = Told(each)
        told.tell()
        assert "SECRET" in repr([entry.event for entry in each.entries])
        assert "SECRET" not in "".join(span.to_json() for span in told.spans)
        assert "b: raised" not in "".join(span.to_json() for span in told.spans)


# -- spans during the performance of an effect -----------------------------------------------------------


class Tracing:
    """A performer that writes a span of its own."""

    def __init__(self, provider: TracerProvider) -> None:
        self.tracer = provider.get_tracer("inside")

    async def perform(self, effect_id: str, request: Any, report: Any) -> Any:
        with self.tracer.start_as_current_span("inside"):
            return effect_id


def performed(told: Told, effect_id: str) -> ReadableSpan:
    """The span that a performer of that effect has written."""
    outcome: Any = asyncio.run(told.telemetry.within(Tracing(told.provider)).perform(effect_id, None, lambda event: None))
    assert outcome == effect_id
    assert trace.get_current_span() is trace.INVALID_SPAN
    return next(span for span in told.spans if span.name == "inside")


def test_what_is_traced_while_an_effect_is_performed_hangs_under_it(agent: Agent) -> None:
    told = Told(agent)
    told.tell()
    effect = agent.task("a").effect_id
    inside = performed(told, effect)
    agent.ends("a")
    told.tell()
    assert parent_of(inside) == id_of(told.effect(effect))


def test_spans_of_an_unknown_effect_are_children_of_its_run(agent: Agent) -> None:
    assert parent_of(performed(Told(agent), "r:99.0")) == RUN
