from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from asterism import bootstrap
from asterism.bootstrap import open_runtime, open_store, workers_folder
from asterism.kernel.journal import version_of
from asterism.machines.constellation_agent.events import Submitted
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.runtime.ports.planner import PlannerQuestion, PlanningUnavailable, Proposal
from asterism.telemetry import observer


def test_what_a_planner_traces_hangs_under_the_span_of_its_question(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setenv("OTEL_SERVICE_NAME", "asterism")
    monkeypatch.setattr(observer, "Telemetry", partial(observer.Telemetry, tracer_provider=provider))

    class Tracing:
        async def propose(self, question: PlannerQuestion) -> Proposal:
            with provider.get_tracer("inside").start_as_current_span("inside"):
                raise PlanningUnavailable("nobody plans here")

    async def scenario() -> None:
        database = tmp_path / "a.db"
        async with open_store(database, create=True) as store, open_runtime(store, {}, database, planner=Tracing()) as runtime:
            run = await runtime.submit(CONSTELLATION_AGENT, Submitted(request="a heron", fleet=()), title="a heron", actor="ada")
            await runtime.drive(run)

    asyncio.run(scenario())
    spans = kept.get_finished_spans()
    (inside,) = (span for span in spans if span.name == "inside")
    (question,) = (span for span in spans if (span.attributes or {}).get("asterism.kind") == "effect")
    above, asked = inside.parent, question.get_span_context()
    assert above is not None
    assert asked is not None
    assert above.span_id == asked.span_id


def test_taking_a_run_up_again_reaps_the_workers_of_its_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reaped: list[Path] = []
    monkeypatch.setattr(bootstrap, "reap_orphans", reaped.append)

    async def scenario() -> None:
        database = tmp_path / "a.db"
        async with open_store(database, create=True) as store, open_runtime(store, {}, database) as runtime:
            run = await runtime.submit(CONSTELLATION_AGENT, Submitted(request="a heron", fleet=()), title="a heron", actor="ada")
            await store.release(run, await store.claim(run, newest=version_of(CONSTELLATION_AGENT)), force=True)  # somebody has owned it
            assert reaped == []
            await runtime.drive(run)
        assert reaped == [workers_folder(database)]

    asyncio.run(scenario())
