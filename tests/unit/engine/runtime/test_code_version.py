"""Whose code a snapshot is of: for a machine of a program's own, that program's."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import asterism
from asterism.app.bootstrap import FORMS
from asterism.engine.control import Machine
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.kernel.snapshot import Snapshot, take_snapshot
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.code_version import code_version, sources_of
from asterism.engine.runtime.snapshots import SnapshotPolicy, load
from asterism.stores.memory import MemoryStore
from tests.support.memory_stores import put_snapshot

PACKAGE = Path(asterism.__file__).parent
TABLE = """
from enum import StrEnum
from asterism.engine.control import Event, RunControl, cancels_to, define_machine, fails_to, row
from {package}.memory import Memory
from {package}.moves import add, hear

class State(StrEnum):
    OPEN = "OPEN"
    SHUT = "SHUT"

def counted(memory: Memory, event: hear.Add, turn):
    return State(add(memory, event))

COUNTER = define_machine(
    "counter", states=State, initial=State.OPEN,
    table={{State.OPEN: {{hear.Add: row(counted, State.SHUT, internal=True)}}, State.SHUT: {{}}}},
    effects=(), memory=Memory,
    control=RunControl(cancel=cancels_to(State.SHUT), defect=fails_to(State.SHUT), forked=hear.forked),
)
"""
MEMORY = """
from asterism.engine.control import RunMemory

class Memory(RunMemory, kw_only=True):
    total: int = 0

    def result(self):
        return {"total": self.total}
"""
MOVES = """
from {package} import hear

def add(memory, event):
    memory.total += 1
    return "OPEN"
"""
HEAR = """
from asterism.engine.control import Event

class Add(Event, tag="add", frozen=True, kw_only=True):
    text: str = ""

def forked(memory, event, turn):
    memory.total = 0
"""
SOURCES = {"__init__": "", "table": TABLE, "memory": MEMORY, "moves": MOVES, "hear": HEAR}


class Counter:
    """A package with a machine in it, which can be changed and loaded as another process would load it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "counter_package"
        self.folder.mkdir()
        for name, source in SOURCES.items():
            self.source(name).write_text(source.replace("{package}", self.folder.name).replace("{{", "{").replace("}}", "}"))

    def source(self, name: str) -> Path:
        return self.folder / f"{name}.py"

    def loaded(self) -> tuple[Machine[Any], ModuleType]:
        self.forget()
        __import__(f"{self.folder.name}.table")
        return sys.modules[f"{self.folder.name}.table"].COUNTER, sys.modules[f"{self.folder.name}.hear"]

    def forget(self) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == self.folder.name]:
            del sys.modules[name]


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a changed source of one size within one second would be loaded as it was
    made = Counter(tmp_path)
    yield made
    made.forget()


def counting(machine: Machine[Any], hear: ModuleType) -> tuple[Run[Any], list[Any]]:
    run = Run(machine, "r")
    return run, [run.take(hear.Add(), at=1.0, actor="me") for _ in range(3)]


def total(machine: Machine[Any], entries: list[Any], snapshot: Snapshot | None) -> int:
    """Return the memory of the run from a store with this snapshot."""

    async def main() -> int:
        store = MemoryStore()
        first, *more = [packer(machine).pack(entry) for entry in entries]
        await store.submit(RunRow(run_id="r", machine="counter", title="", state="OPEN"), first, *more)
        if snapshot:
            put_snapshot(store, snapshot)
        live, _ = await load(store, machine, "r")
        found: int = live.memory.total
        return found

    return asyncio.run(main())


def test_a_snapshot_is_ignored_after_the_source_of_a_move_has_changed(counter: Counter) -> None:
    machine, hear = counter.loaded()
    run, entries = counting(machine, hear)
    snapshot = take_snapshot(run, code_version(machine))
    source = counter.source("moves")
    source.write_text(source.read_text().replace("total += 1", "total += 2"))
    machine, _ = counter.loaded()
    assert total(machine, entries, snapshot) == 6


def test_a_snapshot_of_the_same_source_is_believed_by_another_process(counter: Counter) -> None:
    machine, hear = counter.loaded()
    run, entries = counting(machine, hear)
    run.memory.total = 100  # found only in the snapshot
    snapshot = take_snapshot(run, code_version(machine))
    machine, _ = counter.loaded()
    assert total(machine, entries, snapshot) == 100


@pytest.mark.parametrize("name", ["table", "memory", "moves", "hear"])
def test_the_table_the_memory_the_hooks_and_what_they_import_from_their_folder_are_covered(counter: Counter, name: str) -> None:
    before = code_version(counter.loaded()[0])
    assert code_version(counter.loaded()[0]) == before
    counter.source(name).write_text(counter.source(name).read_text() + "\n# changed\n")
    assert code_version(counter.loaded()[0]) != before


def test_what_lies_elsewhere_or_is_not_imported_is_not_covered(counter: Counter) -> None:
    before = code_version(counter.loaded()[0])
    counter.source("unrelated").write_text("x = 1\n")
    assert code_version(counter.loaded()[0]) == before


def test_a_hook_that_nothing_else_names_is_covered(counter: Counter) -> None:
    """The table imports it under no module of its own: it is found by what the machine is made of."""
    counter.source("hooks").write_text("def paused(memory, event, turn):\n    memory.paused = True\n")
    table = counter.source("table")
    hooked = table.read_text().replace("forked=hear.forked", f"paused=__import__('{counter.folder.name}.hooks', fromlist=['x']).paused")
    table.write_text(hooked)
    before = code_version(counter.loaded()[0])
    counter.source("hooks").write_text("def paused(memory, event, turn):\n    memory.paused = bool(1)\n")
    assert code_version(counter.loaded()[0]) != before


def test_no_snapshots_are_taken_of_a_machine_without_source(counter: Counter) -> None:
    machine, hear = counter.loaded()
    hear.__dict__.pop("__file__")
    run, _ = counting(machine, hear)
    assert code_version(machine) == ""
    assert SnapshotPolicy(0).after(run, []) is None


@pytest.mark.parametrize("machine", [form.machine for form in FORMS.values()], ids=lambda it: it.name)
def test_the_whole_code_of_a_machine_is_covered_and_nothing_that_no_move_runs(machine: Machine[Any]) -> None:
    form = {"constellation agent": "constellation", "orchestration loop": "loop", "flow agent": "conversation"}[machine.name]
    covered = {source.relative_to(PACKAGE) for source in sources_of(machine) or ()}
    pure = [PACKAGE / "engine" / "kernel", PACKAGE / "engine" / "control", PACKAGE / form / "machine"]
    assert {source.relative_to(PACKAGE) for folder in pure for source in folder.glob("*.py")} <= covered
    assert (Path("constellation/model/batch.py") in covered) == (form == "constellation")
    assert not {room for room, *_ in (path.parts for path in covered)} & {"app", "cli", "console", "service", "stores", "testing"}
    assert code_version(machine)
