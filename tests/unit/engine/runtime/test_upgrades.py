"""Runs in flight when a move is corrected: entries before the takeover replay by the old rule, later ones follow the new one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from asterism.app.bootstrap import FORMS
from asterism.engine.kernel.journal import Entry, JournalMismatch, version_of
from asterism.engine.kernel.machine import Machine, StepContext
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.form import Form
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import RunNewer
from asterism.stores.memory import MemoryDatabase, MemoryStore
from tests.support.program_versions import NAMES, Hands, by_rules, finish, next_version, runtime_of, submit
from tests.unit.engine.runtime.test_newer import parked, process

Parks = Callable[[MemoryDatabase, str], Awaitable[None]]


@contextlib.asynccontextmanager
async def program(database: MemoryDatabase, forms: Mapping[str, Form], hands: Hands | None = None) -> AsyncIterator[Runtime]:
    runtime = runtime_of(MemoryStore(database), SystemClock(), forms, hands or Hands())
    async with runtime.driver.opened():
        yield runtime


async def until_a_person_is_asked(database: MemoryDatabase, name: str) -> None:
    async with program(database, FORMS) as runtime:
        await submit(runtime, name, "r")
        assert (await runtime.drive("r")).status == "waiting"


async def until_it_is_killed(database: MemoryDatabase, name: str) -> None:
    began = asyncio.Event()
    store = MemoryStore(database)
    runtime = runtime_of(store, SystemClock(), FORMS, Hands(began.set))
    async with runtime.driver.opened():
        await submit(runtime, name, "r")
        driving = asyncio.ensure_future(runtime.drive("r"))
        await began.wait()
        store.crash()
        driving.cancel()
        await asyncio.wait([driving])


def journal(database: MemoryDatabase, machine: Machine[Any]) -> list[Entry]:
    return [packer(machine).unpack(record) for record in database.records["r"]]


@pytest.mark.parametrize("parks", [until_a_person_is_asked, until_it_is_killed])
@pytest.mark.parametrize("name", NAMES)
def test_a_correction_applies_from_the_takeover_that_brought_it(name: str, parks: Parks) -> None:
    corrected = next_version()
    later = {name: form.machine for name, form in corrected.items()}

    async def main() -> MemoryDatabase:
        database = MemoryDatabase()
        await parks(database, name)
        assert database.runs["r"].version == version_of(FORMS[name].machine)
        async with program(database, corrected) as runtime:
            row = await finish(runtime, "r")
        assert (row.outcome, row.version) == ("finished", version_of(later[name]))
        return database

    database = asyncio.run(main())
    entries = journal(database, later[name])
    found, first, second = by_rules(entries), FORMS[name].machine.rules, later[name].rules
    assert set(found) == {first, second}
    assert found[first], "the first version has asked for something"
    assert found[second], "and so has the second"
    assert not any(found[first])
    assert all(found[second])
    again: Run[Any] = Run(later[name], "r")
    again.replay(entries)
    assert again.ended


@pytest.mark.parametrize("parks", [until_a_person_is_asked, until_it_is_killed])
@pytest.mark.parametrize("name", NAMES)
def test_the_same_correction_strands_a_run_where_it_does_not_ask_for_the_version(name: str, parks: Parks) -> None:
    async def main() -> None:
        database = MemoryDatabase()
        await parks(database, name)
        async with program(database, next_version(asks=False)) as runtime:
            with pytest.raises(JournalMismatch, match="a replay schedules other effects than the journal has"):
                await runtime.drive("r")

    asyncio.run(main())


@pytest.mark.parametrize("name", NAMES)
def test_the_older_program_stops_driving_a_run_that_the_newer_one_has_resumed(name: str) -> None:
    async def main() -> None:
        database = MemoryDatabase()
        await until_a_person_is_asked(database, name)
        async with program(database, next_version()) as newer:
            assert (await newer.drive("r")).status == "waiting"
        before = database.runs["r"]
        async with program(database, FORMS) as older:
            with pytest.raises(RunNewer):
                await older.drive("r")
        assert database.runs["r"] == before

    asyncio.run(main())


@pytest.mark.parametrize("name", NAMES)
def test_a_fork_follows_the_rules_of_its_entries_until_it_is_acquired(name: str) -> None:
    corrected = next_version()
    later = {name: form.machine for name, form in corrected.items()}

    async def main() -> MemoryDatabase:
        database = MemoryDatabase()
        await until_a_person_is_asked(database, name)
        async with program(database, corrected) as runtime:
            copied = database.runs["r"].seq
            await runtime.fork("r", copied, actor="bob", new_id="fork")
            forked = [packer(later[name]).unpack(record) for record in database.records["fork"]]
            assert {rules: any(found) for rules, found in by_rules(forked).items()} == {FORMS[name].machine.rules: False}
            assert (await finish(runtime, "fork")).outcome == "finished"
        return database

    database = asyncio.run(main())
    entries = [packer(later[name]).unpack(record) for record in database.records["fork"]]
    assert all(by_rules(entries)[later[name].rules])


def test_a_child_that_cannot_be_replayed_stops_its_tree_and_is_no_result_for_its_parent() -> None:
    async def main() -> None:
        database = MemoryDatabase()
        below = await parked(database)
        write = "UPDATE entries SET state = ? WHERE run = ? AND seq = 1"
        database.connection.execute(write, ("FAIL", below))  # as if its first move were another one today
        async with process(database) as other:
            with pytest.raises(
                JournalMismatch, match=f"journal of run {below}, entry 1: a replay leads to CONTINUE, but the journal has FAIL"
            ):
                await other.runtime.drive("r")
        assert "child_ended" not in [record.kind for record in database.records["r"]]
        database.connection.execute(write, ("CONTINUE", below))
        async with process(database) as first:
            assert (await first.runtime.drive("r")).status == "waiting"

    asyncio.run(main())


@pytest.mark.parametrize("kind", [KeyError, RuntimeError, TypeError, ValueError, AttributeError, AssertionError])
def test_a_child_over_whose_journal_todays_move_fails_stops_its_tree(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        database = MemoryDatabase()
        below = await parked(database)
        step = Machine.step

        def fails(machine: Machine[Any], state: Any, of: Any, event: Any, context: StepContext) -> Any:
            if (context.run_id, context.seq) == (below, 1):
                raise kind("it trips over an old event")
            return step(machine, state, of, event, context)

        monkeypatch.setattr(Machine, "step", fails)
        async with process(database) as other:
            with pytest.raises(JournalMismatch, match=f"journal of run {below}, entry 1: it cannot be replayed"):
                await other.runtime.drive("r")
        assert "child_ended" not in [record.kind for record in database.records["r"]]

    asyncio.run(main())
