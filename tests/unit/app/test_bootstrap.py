from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import asterism
from asterism.app import bootstrap
from asterism.app.bootstrap import open_runtime, open_store
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.planner.port import PlannerRequest, PlanningUnavailable, Proposal
from asterism.devices.attempts.processes import workers_folder
from asterism.engine.control import BatchEnded, Cancel, EffectResult, OwnershipAcquired, Pause, Unpause
from asterism.engine.kernel.journal import Entry, version_of
from asterism.engine.kernel.packing import packer
from asterism.engine.ports.store import Commit
from asterism.engine.runtime.form import Form
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import InvalidInput, UnknownMachine
from asterism.service.telemetry import observer
from tests.support.ferry_machine import FERRY, Carried, Carry, Crew, Depart, Throw, registration

T = TypeVar("T")


def test_what_a_planner_traces_hangs_under_the_span_of_its_question(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setenv("OTEL_SERVICE_NAME", "asterism")
    monkeypatch.setattr(observer, "Telemetry", partial(observer.Telemetry, tracer_provider=provider))

    class Tracing:
        async def propose(self, question: PlannerRequest) -> Proposal:
            with provider.get_tracer("inside").start_as_current_span("inside"):
                raise PlanningUnavailable("nobody plans here")

    async def scenario() -> None:
        database = tmp_path / "a.db"
        async with open_store(database, create=True) as store, open_runtime(store, {}, database, planner=Tracing()) as runtime:
            run = await runtime.submit(
                CONSTELLATION_AGENT, ConstellationSubmitted(request="a heron", fleet=()), title="a heron", actor="ada"
            )
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
            run = await runtime.submit(
                CONSTELLATION_AGENT, ConstellationSubmitted(request="a heron", fleet=()), title="a heron", actor="ada"
            )
            await store.release(run, await store.acquire(run, newest=version_of(CONSTELLATION_AGENT)), force=True)  # it had an owner
            assert reaped == []
            await runtime.drive(run)
        assert reaped == [workers_folder(database)]

    asyncio.run(scenario())


# -- machines of a program's own -------------------------------------------------------------------

DEPART = Depart(parcels=("a", "b"))


class Seen:
    """An observer that waits for an entry."""

    def __init__(self, is_it: Callable[[str, Entry], bool]) -> None:
        self.it = asyncio.Event()
        self._is_it = is_it

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        if any(self._is_it(run_id, entry) for entry in entries):
            self.it.set()

    def trouble(self, run_id: str, message: str) -> None:
        raise AssertionError(message)


def within(database: Path, scenario: Callable[[Runtime], Awaitable[T]], machines: Sequence[Form] = ()) -> T:
    """Return the result of a scenario that has a runtime over the database."""

    async def main() -> T:
        async with asterism.open(database, machines=machines) as runtime:
            return await scenario(runtime)

    return asyncio.run(main())


async def submitted(runtime: Runtime, first: Depart = DEPART) -> str:
    return await runtime.submit(FERRY, first, title="over", actor="ann")


def test_a_program_runs_its_own_machine_and_reads_its_result(tmp_path: Path) -> None:
    async def scenario(runtime: Runtime) -> tuple[str, dict[str, Any]]:
        run = await submitted(runtime)
        return (await runtime.drive(run)).outcome, (await runtime.load(run)).memory.result()

    assert within(tmp_path / "a.db", scenario, [registration()]) == ("finished", {"summary": "over", "seen": ["a", "b"]})


def test_a_run_is_driven_on_by_the_next_process_and_obeys_people(tmp_path: Path) -> None:
    database = tmp_path / "a.db"

    async def begin(runtime: Runtime) -> str:
        run = await submitted(runtime, Depart(parcels=("a",), asks=True))
        assert (await runtime.drive(run)).status == "waiting"
        return run

    async def go_on(runtime: Runtime) -> tuple[str, str]:
        (asked,) = await runtime.store.inquiries(run_id=run)
        await runtime.send(run, Pause(), actor="ann")
        fork = await runtime.fork(run, 1, actor="ann")
        await runtime.post_answer(asked.inquiry_id, "approve", actor="ann")
        assert (await runtime.drive(run)).status == "paused"
        await runtime.send(run, Unpause(), actor="ann")
        await runtime.send(fork, Cancel(), actor="ann")
        return (await runtime.drive(run)).outcome, (await runtime.store.run(fork)).outcome

    run = within(database, begin, [registration()])
    assert within(database, go_on, [registration()]) == ("finished", "cancelled")


def test_the_performers_of_a_machine_serve_it_alone(tmp_path: Path) -> None:
    """Two machines that share a kind of effect, and one that uses a kind of a built-in machine: each has its own performer."""
    performed: list[str] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        async def perform(self, effect_id: str, effect: Carry, report: object) -> EffectResult:
            performed.append(self.name)
            return Carried(effect_id=effect_id, parcel=effect.parcel)

    twin = copy.copy(FERRY)
    twin.name = "twin"
    named = [Form(machine, {kind: Named(machine.name) for kind in (Carry, Throw)}) for machine in (FERRY, twin)]

    async def scenario(runtime: Runtime) -> None:
        for machine in (twin, FERRY):
            run = await runtime.submit(machine, Depart(parcels=("a",)), title="over", actor="ann")
            assert (await runtime.drive(run)).outcome == "finished"

    within(tmp_path / "a.db", scenario, named)
    assert performed == ["twin", "ferry"]


def test_a_run_of_a_machine_that_is_not_registered_is_left_alone(tmp_path: Path) -> None:
    database = tmp_path / "a.db"
    run = within(database, submitted, [registration()])

    async def scenario(runtime: Runtime) -> None:
        for attempt in (runtime.drive(run), runtime.send(run, Cancel(), actor="ann"), runtime.load(run)):
            with pytest.raises(
                InvalidInput,
                match=f"^run {run}: its machine 'ferry' is not known here; name its form in ASTERISM_FORMS",
            ):
                await attempt
        assert [(row.machine, row.status, row.epoch, row.seq) for row in await runtime.runs()] == [("ferry", "active", 0, 1)]
        assert await runtime.store.inbox([run]) == []

    within(database, scenario)


def test_a_tree_with_a_child_of_a_machine_that_is_not_registered_is_left_alone(tmp_path: Path) -> None:
    """Or the child would be given up in its parent's journal, as one that cannot go on."""
    database, twin = tmp_path / "a.db", copy.copy(FERRY)
    twin.name = "twin"
    tug = Form(twin, {Carry: Crew(), Throw: Crew()})

    async def begin(runtime: Runtime) -> str:
        run = await runtime.submit(twin, Depart(tows=("c",)), title="over", actor="ann")  # it tows a ferry, which pauses for 10 s
        rests = Seen(lambda of, entry: of != run and entry.state == "RESTING")
        runtime.driver.observe(rests)
        _ = runtime.driver.start(run)
        await rests.it.wait()
        return run

    async def scenario(runtime: Runtime) -> None:
        before = await runtime.store.run(run)
        with pytest.raises(InvalidInput, match="its machine 'ferry' is not known here"):
            await runtime.drive(run)
        assert await runtime.store.run(run) == before

    run = within(database, begin, [tug, registration()])
    within(database, scenario, [tug])


def test_a_child_that_has_ended_is_not_given_up_by_who_does_not_know_its_machine(tmp_path: Path) -> None:
    """Its parent has not processed its end yet: the tree is released, and a program with both machines resumes it."""
    database, twin = tmp_path / "a.db", copy.copy(FERRY)
    twin.name = "twin"
    tug = Form(twin, {Carry: Crew(), Throw: Crew()})

    async def begin(runtime: Runtime) -> str:
        run = await runtime.submit(twin, Depart(tows=("c",)), title="over", actor="ann")
        towed = Seen(lambda of, entry: of != run and entry.state == "RESTING")
        runtime.driver.observe(towed)
        _ = runtime.driver.start(run)
        await towed.it.wait()
        return run

    async def end(runtime: Runtime) -> None:
        (child,) = (row for row in await runtime.runs() if row.machine == "ferry")
        epoch = await runtime.store.acquire(child.run_id, newest=version_of(FERRY))
        live = await runtime.load(child.run_id)
        claimed = live.take(OwnershipAcquired(epoch=epoch, owner="t"), at=child.updated_at, actor="system")
        done = live.take(BatchEnded(), at=child.updated_at + 20, actor="system")
        assert claimed
        assert done
        assert live.ended
        await runtime.store.append(
            Commit(
                run_id=child.run_id,
                epoch=epoch,
                expected_seq=child.seq,
                records=[packer(FERRY).pack(entry) for entry in (claimed, done)],
                state="DONE",
                status="ended",
                outcome="finished",
                updated_at=done.at,
            )
        )
        await runtime.store.release(child.run_id, epoch)

    async def stranger(runtime: Runtime) -> None:
        with pytest.raises(UnknownMachine):
            await runtime.drive(run)
        assert (await runtime.load(run)).outstanding

    async def friend(runtime: Runtime) -> dict[str, Any]:
        await runtime.drive(run)
        return dict((await runtime.load(run)).memory.seen)

    run = within(database, begin, [tug, registration()])
    within(database, end, [tug, registration()])
    within(database, stranger, [tug])
    assert within(database, friend, [tug, registration()]) == {"towed": {"c"}}


def test_a_command_reaches_a_run_whose_program_drives_it_from_one_that_does_not_know_its_machine(tmp_path: Path) -> None:
    database = tmp_path / "a.db"

    async def scenario(runtime: Runtime) -> str:
        run = await submitted(runtime, Depart(parcels=("a",)))
        claimed = Seen(lambda of, entry: isinstance(entry.event, OwnershipAcquired))
        runtime.driver.observe(claimed)
        driven = runtime.driver.start(run)
        await claimed.it.wait()
        async with asterism.open(database) as stranger:
            assert await stranger.send(run, Cancel(), actor="ann") == "accepted"
        return (await driven).outcome

    assert within(database, scenario, [registration(3600.0)]) == "cancelled"
