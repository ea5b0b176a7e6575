"""A run that a newer program has written to: an older one reports it, and changes and performs nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from asterism.constellation.form import FORM
from asterism.constellation.machine.events import AttemptEnded, ConstellationSubmitted, Dispatch
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.engine.control.run_control import Cancel
from asterism.engine.kernel.journal import version_of
from asterism.engine.kernel.machine import EffectResult
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import RunNewer, version_text
from asterism.stores.memory import MemoryDatabase, MemoryStore
from tests.support.constellation_harness import FLEET
from tests.support.constellations import tasks
from tests.support.memory_stores import change_run

OURS = version_of(CONSTELLATION_AGENT)
# The root asks about q, and the run below it about p.
INNER = {"tasks": tasks("p", requires_approval=True)}
PLAN = {"tasks": [{"task_id": "n", "constellation": INNER}, *tasks("q", requires_approval=True)]}


class Process:
    """One process of the scene.

    Attributes:
        performed: what it has begun, by id of the task.
    """

    def __init__(self, database: MemoryDatabase) -> None:
        self.store = MemoryStore(database)
        self.performed: list[str] = []
        self.driver = Driver(store=self.store, clock=SystemClock(), forms=by_name([FORM.performed_by({Dispatch: self})]))
        self.runtime = Runtime(self.store, self.driver, SystemClock())

    async def perform(self, effect_id: str, request: Any, report: Any) -> EffectResult:
        self.performed.append(request.task_id)
        return AttemptEnded(effect_id=effect_id)


@contextlib.asynccontextmanager
async def process(database: MemoryDatabase) -> AsyncIterator[Process]:
    made = Process(database)
    async with made.driver.opened():
        yield made


async def parked(database: MemoryDatabase) -> str:
    """Run ``r`` waits for people, and so does the run below it, whose id is returned."""
    async with process(database) as first:
        submitted = ConstellationSubmitted(request="go", fleet=FLEET, plan=parse_plan(PLAN))
        await first.runtime.submit(CONSTELLATION_AGENT, submitted, title="a run", actor="me", run_id="r")
        row = await first.runtime.drive("r")
        assert (row.status, row.version, first.performed) == ("waiting", OURS, [])
    (below,) = (run for run in database.runs if run != "r")
    assert database.runs[below].version == OURS
    return below


def outdate(database: MemoryDatabase, run_id: str) -> None:
    """A newer program has written to a run."""
    change_run(database, run_id, version=OURS + 1)


def in_one_line(run_id: str) -> str:
    ours, theirs = version_text(OURS), version_text(OURS + 1)
    return (
        f"run {run_id} was written with run version {theirs}, and this program supports run versions up to {ours};"
        " upgrade Asterism, or the program that defines the run's machine"
    )


@pytest.mark.parametrize("who", ["the root", "its child"])
def test_a_newer_run_anywhere_in_a_tree_prevents_its_drive_and_every_effect(who: str) -> None:
    async def main() -> None:
        database = MemoryDatabase()
        below = await parked(database)
        newer = "r" if who == "the root" else below
        outdate(database, newer)
        async with process(database) as older:
            (question,) = (it.inquiry_id for it in database.inquiries.values() if it.run_id == "r")
            await older.runtime.post_answer(question, "approve", actor="ada")  # there is work to do
            before = dict(database.runs)
            for driven in ("r", below):
                with pytest.raises(RunNewer) as raised:
                    await older.runtime.drive(driven)
                assert str(raised.value) == in_one_line(newer)
            assert (database.runs, older.performed) == (before, [])

    asyncio.run(main())


def test_a_newer_run_below_an_imported_root_that_was_never_driven_prevents_its_drive() -> None:
    async def main() -> None:
        there, here = MemoryDatabase(), MemoryDatabase()
        below = await parked(there)
        async with process(there) as first, process(here) as second:
            await second.runtime.import_journals(await first.runtime.export("r"))
            assert here.runs["r"].epoch == 0
            outdate(here, below)
            with pytest.raises(RunNewer) as raised:
                await second.runtime.drive("r")
            assert str(raised.value) == in_one_line(below)
            assert here.runs["r"].epoch == 0, "it was not acquired"

    asyncio.run(main())


def test_a_child_that_becomes_newer_after_the_check_is_not_acquired(monkeypatch: pytest.MonkeyPatch) -> None:
    async def looked_at(driver: Driver, root: str) -> None:
        """Found nothing."""

    async def main() -> None:
        database = MemoryDatabase()
        below = await parked(database)
        outdate(database, below)
        monkeypatch.setattr(Driver, "check_tree", looked_at)
        before = database.runs[below]
        async with process(database) as older:
            with pytest.raises(RunNewer) as raised:
                await older.runtime.drive("r")
            assert str(raised.value) == in_one_line(below)
            assert database.runs[below] == before
            assert database.runs["r"].owner == "", "the root is free for a newer program"

    asyncio.run(main())


def test_a_command_to_a_newer_run_is_not_sent() -> None:
    async def main() -> None:
        database = MemoryDatabase()
        await parked(database)
        outdate(database, "r")
        async with process(database) as older:
            with pytest.raises(RunNewer):
                await older.runtime.send("r", Cancel(), actor="ada")
        assert database.inbox == {}

    asyncio.run(main())


def test_a_newer_run_is_neither_forked_nor_imported() -> None:
    async def main() -> None:
        database, elsewhere = MemoryDatabase(), MemoryDatabase()
        below = await parked(database)
        outdate(database, "r")
        async with process(database) as older, process(elsewhere) as other:
            with pytest.raises(RunNewer):
                await older.runtime.fork("r", 1, actor="ada", new_id="fork")
            journals = [(database.runs[run], database.records[run]) for run in ("r", below)]
            with pytest.raises(RunNewer) as raised:
                await other.runtime.import_journals(journals)
            assert str(raised.value) == in_one_line("r")
        assert (set(database.runs), elsewhere.runs) == ({"r", below}, {})

    asyncio.run(main())


def test_a_fork_and_an_import_keep_the_rules_of_their_entries_and_have_todays_version() -> None:
    async def main() -> None:
        database, elsewhere = MemoryDatabase(), MemoryDatabase()
        await parked(database)
        async with process(database) as first, process(elsewhere) as other:
            await first.runtime.fork("r", 1, actor="ada", new_id="fork")
            row, records = database.runs["fork"], database.records["fork"]
            await other.runtime.import_journals([(msgspec.structs.replace(row, version=0), records)])
        assert [msgspec.json.decode(record.body).get("rules") for record in records] == [CONSTELLATION_AGENT.rules, None]
        assert elsewhere.records["fork"][:-1] == records
        assert (row.version, elsewhere.runs["fork"].version) == (OURS, OURS)

    asyncio.run(main())
