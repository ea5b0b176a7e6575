"""A run is released once when it parks or when driving it fails: each release costs a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from asterism.constellation.form import FORM
from asterism.constellation.machine.events import AttemptEnded, ConstellationSubmitted, Dispatch
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.engine.control.run_control import Answered, Cancel
from asterism.engine.kernel.machine import EffectResult, Event
from asterism.engine.kernel.packing import event_body
from asterism.engine.kernel.permissions import ALL
from asterism.engine.kernel.refusal import verdict_words
from asterism.engine.ports.store import Commit, InboxRow
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import StoreUnavailable
from asterism.stores.memory import MemoryStore
from tests.support.constellation_harness import FLEET
from tests.support.constellations import tasks


class Counting(MemoryStore):
    """Writes down how each run was released."""

    def __init__(self) -> None:
        super().__init__()
        self.forced: list[bool] = []

    async def release(self, run_id: str, epoch: int, *, force: bool = False, due_at: float | None = None, problem: str = "") -> bool:
        self.forced.append(force)
        return await super().release(run_id, epoch, force=force, due_at=due_at, problem=problem)


class Stuck(Counting):
    """Raises instead of returning an inbox, so that no takeover can be written."""

    async def inbox(self, runs: Sequence[str]) -> list[InboxRow]:
        raise StoreUnavailable("the disk is gone")


class Prompt:
    """Ends each attempt at once."""

    async def perform(self, effect_id: str, request: Any, report: Any) -> EffectResult:
        return AttemptEnded(effect_id=effect_id)


class Answering(MemoryStore):
    """While a root is being released, the question of its child is answered, and the child accepts the answer."""

    driver: Driver

    async def release(self, run_id: str, epoch: int, *, force: bool = False, due_at: float | None = None, problem: str = "") -> bool:
        asked = next((it for it in self.database.inquiries.values() if it.run_id != run_id and not it.answer), None)
        if asked and not force:
            body = event_body(Answered(effect_id=asked.inquiry_id, verb="approve", digest=asked.digest))
            row = InboxRow(run_id=asked.run_id, key=asked.inquiry_id, actor="me", kind="answered", body=body, at=0.0, permissions=ALL)
            await self.send(row)
            self.driver.wake_inbox()
            for _ in range(100):
                await asyncio.sleep(0)
            assert await self.verdict(asked.run_id, asked.inquiry_id)
        return await super().release(run_id, epoch, force=force, due_at=due_at, problem=problem)


class Overtaken(MemoryStore):
    """While a cancel is being written, an answer to the question of the run is delivered."""

    driver: Driver

    async def append(self, commit: Commit) -> None:
        await super().append(commit)
        if any(record.kind == "cancel" for record in commit.records):
            (asked,) = self.database.inquiries
            body = event_body(Answered(effect_id=asked, verb="approve"))
            await self.send(InboxRow(run_id=commit.run_id, key=asked, actor="me", kind="answered", body=body, at=0.0))
            self.driver.wake_inbox()
            for _ in range(20):
                await asyncio.sleep(0)


def driven(store: MemoryStore, first: Event) -> tuple[str, str]:
    """Status and owner of a run that was driven as far as it goes."""

    async def main() -> tuple[str, str]:
        driver = Driver(store=store, clock=SystemClock(), forms=by_name([FORM]))
        async with driver.opened():
            runtime = Runtime(store, driver, SystemClock())
            run = await runtime.submit(CONSTELLATION_AGENT, first, title="a run", actor="me", run_id="r")
            row = await runtime.drive(run)
            return row.status, row.owner

    return asyncio.run(main())


FIRST = ConstellationSubmitted(request="go", fleet=FLEET, plan=parse_plan({"tasks": tasks("a", requires_approval=True)}))


def test_a_run_that_waits_for_a_person_is_released_once() -> None:
    store = Counting()
    assert driven(store, FIRST) == ("waiting", "")
    assert store.forced == [False]


def test_a_run_is_released_when_driving_it_fails() -> None:
    store = Stuck()
    with pytest.raises(StoreUnavailable):
        driven(store, FIRST)
    assert store.forced == [True]
    assert store.database.runs["r"].owner == ""


def test_a_run_whose_question_is_answered_while_its_cancel_is_written_ends() -> None:
    store = Overtaken()

    async def main() -> None:
        async with Driver(store=store, clock=SystemClock(), forms=by_name([FORM])).opened() as store.driver:
            runtime = Runtime(store, store.driver, SystemClock())
            await runtime.submit(CONSTELLATION_AGENT, FIRST, title="a run", actor="me", run_id="r")
            await runtime.drive("r")
            await runtime.send("r", Cancel(), actor="me")

    asyncio.run(main())
    assert (store.database.runs["r"].status, store.database.runs["r"].outcome) == ("ended", "cancelled")
    assert [verdict_words(row.verdict) for row in store.database.inbox.values()] == ["accepted", "r:3.0 is not open any more"]


def test_a_second_cancel_is_rejected_because_the_run_is_ending_already() -> None:
    store = MemoryStore()

    async def main() -> None:
        driver = Driver(store=store, clock=SystemClock(), forms=by_name([FORM]))
        async with driver.opened():
            runtime = Runtime(store, driver, SystemClock())
            await runtime.submit(CONSTELLATION_AGENT, FIRST, title="a run", actor="me", run_id="r")
            await runtime.drive("r")
            for key in ("first", "second"):
                await runtime.post("r", Cancel(), actor="me", key=key)
            await runtime.drive("r")

    asyncio.run(main())
    assert [verdict_words(row.verdict) for row in store.database.inbox.values()] == ["accepted", "run r is ending already (cancelled)"]


def test_a_tree_goes_on_when_a_child_accepts_an_answer_during_the_release_of_its_root() -> None:
    async def main() -> str:
        store, clock = Answering(), SystemClock()
        store.driver = driver = Driver(store=store, clock=clock, forms=by_name([FORM.performed_by({Dispatch: Prompt()})]))
        plan = parse_plan({"tasks": [{"task_id": "n", "constellation": {"tasks": tasks("p", requires_approval=True)}}]})
        async with driver.opened():
            first = ConstellationSubmitted(request="go", fleet=FLEET, plan=plan)
            run = await Runtime(store, driver, clock).submit(CONSTELLATION_AGENT, first, title="t", actor="me")
            return (await driver.drive(run)).outcome

    assert asyncio.run(main()) == "finished"
