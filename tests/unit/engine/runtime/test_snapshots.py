from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.kernel.snapshot import Snapshot, take_snapshot
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.code_version import code_version
from asterism.engine.runtime.snapshots import SnapshotPolicy, load
from asterism.stores.memory import MemoryStore
from tests.support.constellation_harness import Agent, memory_of
from tests.support.constellations import plan
from tests.support.ferry_machine import FERRY, Hold
from tests.support.memory_stores import put_snapshot


class Store(MemoryStore):
    """Counts the records that are read."""

    read = 0

    async def records(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        found = await super().records(run_id, after=after, limit=limit)
        self.read += len(found)
        return found


def played() -> Agent:
    agent = Agent(plan("a b c d", "a>b b>c c>d"))
    for task_id in "abc":
        agent.ends(task_id, {"x": 1})
    return agent


def loaded(agent: Agent, snapshot: Snapshot | None) -> tuple[Run[ConstellationMemory], int]:
    """The run as a store gives it back, and how many records were read for it."""

    async def main() -> tuple[Run[ConstellationMemory], int]:
        store = Store()
        first, *more = [packer(CONSTELLATION_AGENT).pack(entry) for entry in agent.entries]
        await store.submit(RunRow(run_id="r", machine=CONSTELLATION_AGENT.name, title="", state="START"), first, *more)
        if snapshot:
            put_snapshot(store, snapshot)
        live, _ = await load(store, CONSTELLATION_AGENT, "r")
        return live, store.read

    return asyncio.run(main())


@pytest.mark.parametrize("odd", [object(), {("a", "b"): 1}])
def test_a_memory_that_cannot_be_written_has_no_snapshot(odd: Any) -> None:
    class Odd(Hold, kw_only=True):
        odd: Any = None

    run: Run[Any] = Run(FERRY, "r")
    run.memory = Odd(odd=odd)
    assert take_snapshot(run, "rules") is None


def told(run: Run[ConstellationMemory]) -> dict[str, Any]:
    return {**memory_of(run), "story": []}


def test_only_what_came_after_the_snapshot_is_replayed() -> None:
    agent = played()
    snapshot = take_snapshot(agent.run, code_version(CONSTELLATION_AGENT))
    agent.ends("d")
    live, read = loaded(agent, snapshot)
    assert told(live) == told(agent.run)
    assert read == 2


def changed(snapshot: Snapshot, old: str, new: str) -> Snapshot:
    assert old in snapshot.body
    return msgspec.structs.replace(snapshot, body=snapshot.body.replace(old, new))


UNREADABLE: dict[str, Callable[[Snapshot], Snapshot]] = {
    "made by other rules": lambda it: msgspec.structs.replace(it, code_version="others"),
    "cut short": lambda it: msgspec.structs.replace(it, body=it.body[:-9]),
    "of an unknown state": lambda it: changed(it, '"CONTINUE"', '"ELSEWHERE"'),
    "with an effect of no known kind": lambda it: changed(it, '"dispatch"', '"Patch"'),
    "with a field of another type": lambda it: changed(it, '"started_at":', '"started_at":"early","was":'),
    "newer than its journal": lambda it: msgspec.structs.replace(it, seq=it.seq + 100),
    "that its journal does not fit": lambda it: changed(it, "r:8.0", "r:6.0"),
}


@pytest.mark.parametrize("how", UNREADABLE)
def test_a_snapshot_that_cannot_be_believed_is_as_good_as_none(how: str) -> None:
    agent = played()
    snapshot = take_snapshot(agent.run, code_version(CONSTELLATION_AGENT))
    assert snapshot is not None
    agent.ends("d")
    live, read = loaded(agent, UNREADABLE[how](snapshot))
    assert told(live) == told(agent.run)
    assert read >= len(agent.entries)


def test_snapshots_lie_so_far_apart_that_all_of_them_are_no_longer_than_the_journal_and_the_last() -> None:
    agent = Agent(plan(" ".join(f"t{number}" for number in range(300))))
    pack = packer(CONSTELLATION_AGENT).pack
    freezer, journal, lengths = SnapshotPolicy(1000), 0, []
    for number in range(300):
        before = len(agent.entries)
        agent.ends(f"t{number}", {"text": "x" * 900})
        records = [pack(entry) for entry in agent.entries[before:]]
        journal += sum(len(record.body) for record in records)
        if snapshot := freezer.after(agent.run, records):
            lengths.append(len(snapshot.body))
    assert len(lengths) >= 2
    assert sum(lengths) <= journal + lengths[-1]


def test_no_snapshot_is_taken_of_a_run_that_has_ended() -> None:
    agent = Agent(plan("a"))
    agent.ends("a")
    assert agent.run.ended
    assert SnapshotPolicy(0).after(agent.run, []) is None
