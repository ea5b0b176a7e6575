"""Golden journals replay on today's code, entry by entry, to the end they had."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from asterism.kernel.journal import Record
from asterism.kernel.run import JournalMismatch, Run, packer
from asterism.machines.constellation_agent.memory import AgentMemory
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.usage import Usage
from asterism.runtime.ports import RunRow
from asterism.runtime.snapshots import load
from asterism.stores.memory import MemoryStore
from tests.journals.write import GOLDEN, main, path_of

ENDS: dict[str, tuple[str, dict[str, str]]] = {
    "creation": ("finished", {"task_001": "COMPLETED", "task_002": "COMPLETED", "task_003": "COMPLETED", "task_004": "SKIPPED"}),
    "editing": ("finished", {"task_001": "COMPLETED", "task_002": "COMPLETED", "task_003": "COMPLETED", "task_005": "COMPLETED"}),
    "retry": ("finished", {"a": "COMPLETED"}),
    "interruption": ("finished", {"task_001": "COMPLETED", "task_002": "COMPLETED", "task_003": "COMPLETED", "task_004": "COMPLETED"}),
    "approval": ("finished", {"a": "COMPLETED", "b": "COMPLETED"}),
    "restart": ("finished", {"c": "COMPLETED"}),
    "nested": ("finished", {"b": "COMPLETED", "c": "COMPLETED"}),
    "cancel": ("cancelled", {"a": "CANCELLED", "b": "CANCELLED", "c": "CANCELLED"}),
    "edits": ("finished", {"a": "COMPLETED", "b": "COMPLETED", "n": "COMPLETED"}),
    "consent": ("finished", {"a": "COMPLETED", "b": "COMPLETED"}),
    "limits": ("finished", {"a": "COMPLETED", "b": "COMPLETED"}),
    "child": ("finished", {"p": "COMPLETED", "q": "COMPLETED"}),
    "fork": ("finished", {"a": "COMPLETED", "b": "COMPLETED", "c": "COMPLETED", "e": "COMPLETED"}),
}
HOLDS = {
    "edits": {"Edited"},
    "consent": {"Planned", "Answered"},
    "limits": {"Planned", "RaiseLimits"},
    "child": {"Pause", "Unpause", "Answered"},
    "fork": {"Forked", "Withdrawn", "Answered"},
}
"""What a journal is kept for, where its name alone does not say it."""


def golden(name: str) -> list[Record]:
    return [msgspec.json.decode(line, type=Record) for line in path_of(name).read_bytes().splitlines()]


def replayed(records: list[Record]) -> Run[AgentMemory]:
    run: Run[AgentMemory] = Run(CONSTELLATION_AGENT, records[0].run)
    run.replay(packer(CONSTELLATION_AGENT).unpack(record) for record in records)
    return run


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_journal_replays_to_its_end(name: str) -> None:
    run = replayed(golden(name))
    assert run.ended
    assert (run.memory.outcome(), {key: str(task.status) for key, task in run.memory.constellation.tasks.items()}) == ENDS[name]


@pytest.mark.parametrize("name", HOLDS)
def test_a_golden_journal_holds_what_it_is_kept_for(name: str) -> None:
    assert HOLDS[name] <= {record.kind for record in golden(name)}


def test_the_journal_of_a_model_has_what_was_said_and_used() -> None:
    assert replayed(golden("limits")).memory.used == Usage(requests=3, input_tokens=240, output_tokens=60, cost_usd=0.03, model="m:x")
    assert '"prompt":"what next?","reply":"{}"' in "".join(record.body for record in golden("limits"))


@pytest.mark.parametrize("name", GOLDEN)
def test_packing_what_was_unpacked_changes_nothing(name: str) -> None:
    pack = packer(CONSTELLATION_AGENT)
    assert [pack.pack(pack.unpack(record)) for record in golden(name)] == golden(name)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_store_that_holds_a_golden_journal_can_be_recovered_from(name: str) -> None:
    first, *more = golden(name)
    row = RunRow(run=first.run, machine=CONSTELLATION_AGENT.name, title=name, state=first.state, seq=1)

    async def main() -> Any:
        store = MemoryStore()
        await store.submit(row, first, *more)
        live, _ = await load(store, CONSTELLATION_AGENT, first.run)
        return live

    assert asyncio.run(main()).seq == len(more) + 1


@pytest.mark.parametrize("name", GOLDEN)
def test_a_journal_that_was_changed_is_not_believed(name: str) -> None:
    records = golden(name)
    other = "FAIL" if records[-1].state == "FINISH" else "FINISH"
    forged = msgspec.structs.replace(records[-1], state=other)
    with pytest.raises(JournalMismatch):
        replayed([*records[:-1], forged])


def test_nothing_is_written_by_accident(capsys: pytest.CaptureFixture[str]) -> None:
    before = {name: path_of(name).stat().st_mtime_ns for name in GOLDEN}
    assert main([]) == 0
    assert "nothing was written" in capsys.readouterr().out
    assert {name: path_of(name).stat().st_mtime_ns for name in GOLDEN} == before
