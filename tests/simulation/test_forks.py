"""Forks: a copy of a run from any entry ends well, repeats nothing silently, and leaves its origin as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from asterism.constellation.form import FORM
from asterism.constellation.machine.events import ConstellationSubmitted, Dispatch, RunOptions
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.python.performers import AttemptPerformer
from asterism.devices.dispatch.dispatcher import Dispatcher
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.journal_file import journal_lines, read_journals
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import InvalidInput
from asterism.stores.memory import MemoryStore
from asterism.testing.clock import WorldClock
from asterism.testing.device import Behaviour, FakeDevice, PerformanceLog, by_skill
from asterism.testing.loop import run as run_in_virtual_time

FLEET = AgentProfile(device_id="d", skills=(Skill(name="again", idempotent=True), Skill(name="once")))
PLAN: dict[str, Any] = {
    "tasks": [
        {"task_id": "a", "device": "d", "skill": "again"},
        {"task_id": "b", "device": "d", "skill": "once", "deadline_s": 500},
        {"task_id": "c", "device": "d", "skill": "once", "requires_approval": True},
        {"task_id": "e", "device": "d", "skill": "again"},
    ],
    "dependencies": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "c", "to": "e", "condition": "accuracy > 0.95"}],
}
ENTRIES = 14
"""Entries of the origin."""


class House:
    """A runtime with one device, and what it performed."""

    def __init__(self, runtime: Runtime, log: PerformanceLog) -> None:
        self.runtime = runtime
        self.log = log
        self.asked: list[str] = []

    async def finish(self, run_id: str) -> RunRow:
        """Drive a run to its end, with yes to every question."""
        for _ in range(10):
            row = await self.runtime.drive(run_id)
            if row.status != "waiting":
                return row
            (question,) = await self.runtime.store.inquiries(root=run_id)
            self.asked.append(question.prompt)
            await self.runtime.post_answer(question.inquiry_id, "approve", actor="ada")
        raise AssertionError("it asks and asks")

    async def origin(self, plan: dict[str, Any] = PLAN) -> RunRow:
        options = RunOptions(wall_limit_s=5000)
        first = ConstellationSubmitted(request="x", fleet=(FLEET,), plan=parse_plan(plan), options=options)
        return await self.finish(await self.runtime.submit(CONSTELLATION_AGENT, first, title="x", actor="ada", run_id="origin"))

    def performed(self, run_id: str) -> list[str]:
        return [performance.task_id for performance in self.log.performances if performance.run_id == run_id]


def play(scenario: Callable[[House], Awaitable[None]]) -> None:
    async def whole() -> None:
        clock = WorldClock()
        log = PerformanceLog(clock.now)
        script = by_skill({name: Behaviour(duration_s=10, result={"accuracy": 0.97}) for name in ("again", "once")})
        async with Dispatcher({"d": FakeDevice(FLEET, log, script)}, clock.now) as dispatcher:
            performers: Any = {Dispatch: AttemptPerformer(dispatcher)}
            driver = Driver(store=(store := MemoryStore()), clock=clock, forms=by_name([FORM.performed_by(performers)]))
            async with driver.opened():
                await scenario(House(Runtime(store, driver, clock), log))

    run_in_virtual_time(whole())


@pytest.mark.parametrize("at", range(1, ENTRIES + 1))
def test_a_fork_from_any_entry_ends_well_and_asks_before_it_repeats_what_may_not_be(at: int) -> None:
    async def scenario(house: House) -> None:
        origin = await house.origin()
        assert origin.seq == ENTRIES
        before = await house.runtime.records("origin")
        await asyncio.sleep(10_000)  # longer than any limit of the plan: a fork's time goes on from where it was copied
        house.asked.clear()
        fork = await house.runtime.fork("origin", at, actor="bob")
        row = await house.finish(fork)
        assert (row.state, row.outcome) == ("FINISH", "finished")
        assert await house.runtime.records("origin") == before
        copied = [record.kind for record in before[:at]]
        ended = copied.count("attempt_ended")
        under_way = {5: "b", 10: "c"}.get(at)
        assert house.performed(fork) == ["a", "b", "c", "e"][ended:]
        told = [prompt for prompt in house.asked if "was under way when origin was forked" in prompt]
        assert [prompt[0] for prompt in told] == ([under_way] if under_way else [])

    play(scenario)


def test_a_fork_records_its_origin_and_can_be_forked_itself() -> None:
    async def scenario(house: House) -> None:
        await house.origin()
        fork = await house.runtime.fork("origin", 4, actor="bob")
        await house.finish(fork)
        again = await house.runtime.fork(fork, 6, actor="bob")
        assert (await house.finish(again)).outcome == "finished"
        forked = [record for record in await house.runtime.records(again) if record.kind == "forked"]
        assert ['"origin":"origin"' in record.body for record in forked] == [True, False]
        assert f'"origin":"{fork}"' in forked[1].body

    play(scenario)


@pytest.mark.parametrize("at", [0, ENTRIES + 1])
def test_an_entry_that_is_not_there_cannot_be_forked_at(at: int) -> None:
    async def scenario(house: House) -> None:
        await house.origin()
        with pytest.raises(InvalidInput, match=f"no entry {at}; it has entries 1 to {ENTRIES}"):
            await house.runtime.fork("origin", at, actor="bob")

    play(scenario)


def test_a_run_moved_as_a_file_goes_on_where_it_was() -> None:
    async def scenario(house: House) -> None:
        await house.origin()
        records = (await house.runtime.records("origin"))[:7]
        row = msgspec.structs.replace(await house.runtime.store.run("origin"), seq=7)
        ((moved_row, moved),) = read_journals(list(journal_lines([(row, records)])))
        await house.runtime.store.prune()
        await house.runtime.import_journals([(moved_row, moved)])
        assert (await house.runtime.store.run("origin")).status == "waiting"
        assert (await house.finish("origin")).outcome == "finished"
        assert house.performed("origin") == ["a", "b", "c", "e", "c", "e"]

    play(scenario)


def test_ids_of_forks_are_their_own() -> None:
    async def scenario(house: House) -> None:
        await house.origin()
        forks = [await house.runtime.fork("origin", at, actor="bob") for at in (3, 5, 10)]
        for fork in forks:
            await house.finish(fork)
        keys = [performance.key for performance in house.log.performances]
        assert len(keys) == len(set(keys))
        assert all(performance.key.startswith(performance.run_id) for performance in house.log.performances)

    play(scenario)
