"""Runs and questions by the beginning of their id, and runs that nobody drives, among many others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from asterism.engine.control.run_control import Pause, Unpause
from asterism.engine.kernel.journal import JournalMismatch
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import RunStatus
from asterism.engine.runtime import lookup
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.problems import problem_of
from asterism.errors import InvalidInput, RunNotFound
from asterism.stores.memory import MemoryDatabase, MemoryStore
from tests.contracts.test_stores import inquiry, record, row
from tests.support.ferry_machine import FERRY, Depart, registration


def among(runs: dict[str, RunStatus], scene: Callable[[Client], Awaitable[None]]) -> None:
    """Play a scene with these runs, the oldest first; each has asked a question."""

    async def play() -> None:
        store = MemoryStore(MemoryDatabase())
        for number, (name, status) in enumerate(runs.items()):
            submitted = msgspec.structs.replace(row(name, created_at=float(number), status=status), machine=FERRY.name, parent="")
            asked = inquiry(f"{name}:1.0", name)
            await store.submit(submitted, record(name), opened=(msgspec.structs.replace(asked, answer="approve"),))
        await scene(Client(store, SystemClock(), by_name([registration()])))

    asyncio.run(play())


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> dict[str, RunStatus]:
    """More runs than are listed at once; the oldest has not ended."""
    monkeypatch.setattr(lookup, "MAX_RUNS", 3)
    return {"260101-aa": "active", **dict.fromkeys([f"260102-b{number}" for number in range(5)], "ended")}


def test_an_old_run_that_was_interrupted_is_found_among_many_that_have_ended(few: dict[str, RunStatus]) -> None:
    """B5."""

    async def scene(client: Client) -> None:
        assert [it.run_id for it in (await lookup.unowned_runs(client)).active] == ["260101-aa"]

    among(few, scene)


@pytest.mark.parametrize("named", ["260101-aa", "260101", "a"])
def test_an_old_run_and_its_question_are_found_by_a_beginning(few: dict[str, RunStatus], named: str) -> None:
    """B5."""

    async def scene(client: Client) -> None:
        assert (await lookup.find_run(client.store, named)).run_id == "260101-aa"
        assert (await lookup.find_inquiry(client.store, named)).inquiry_id == "260101-aa:1.0"
        assert (await lookup.find_inquiry(client.store, "aa:1.0")).inquiry_id == "260101-aa:1.0"

    among(few, scene)


@pytest.mark.parametrize("named", ["260101-aa:1", "aa:1.", "260101-aa:"])
def test_a_part_of_the_number_of_a_question_names_no_question(few: dict[str, RunStatus], named: str) -> None:
    """A server lists open questions only: R:7.1, which is closed, must not name R:7.10."""

    async def scene(client: Client) -> None:
        with pytest.raises(InvalidInput, match="there is no question"):
            await lookup.find_inquiry(client.store, named)

    among(few, scene)


def test_a_beginning_of_several_runs_or_of_none_names_no_run(few: dict[str, RunStatus]) -> None:
    async def scene(client: Client) -> None:
        with pytest.raises(InvalidInput, match="'260102' matches 260102-b4, 260102-b3, 260102-b2, 260102-b1, 260102-b0; give more"):
            await lookup.find_run(client.store, "260102")
        for named in ("", "c", "aab", "260101-aa0"):
            with pytest.raises(RunNotFound):
                await lookup.find_run(client.store, named)

    among(few, scene)


def test_after_a_missing_entry_a_fork_is_advised_at_the_entry_before_it() -> None:
    """J3."""
    run = Run(FERRY, "r")
    entries = [run.take(event, at=1.0, actor="me") for event in (Depart(parcels=("a",), asks=True), Pause(), Unpause(), Pause())]
    with pytest.raises(JournalMismatch, match="entry 3: it is missing") as caught:
        Run(FERRY, "r").replay([it for it in entries if it is not None and it.seq != 3])
    assert problem_of(caught.value).endswith("continue from the entry before with: asterism fork r --at 2")
