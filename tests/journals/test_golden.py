"""Golden journals replay on today's code, entry by entry, to the end they had; and everything that a machine knows is in one of them."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import Any

import msgspec
import pytest

from asterism.app.bootstrap import FORMS
from asterism.engine.control.usage import Usage
from asterism.engine.kernel.journal import JournalMismatch, Record, state_history
from asterism.engine.kernel.machine import Machine, kind_of
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.form import Form
from asterism.engine.runtime.snapshots import load
from asterism.stores.memory import MemoryStore
from tests.journals import agents, flows, loops
from tests.journals.write import GOLDEN, main, path_of
from tests.support.journal_conversion import converted

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
    "devices": ("finished", {"a": "COMPLETED", "b": "COMPLETED"}),
    "guarded": ("failed", {"a": "COMPLETED", "b": "FAILED", "c": "COMPLETED"}),
    "refusals": ("failed", {"a": "COMPLETED", "b": "FAILED", "c": "COMPLETED"}),
    "deadlines": ("failed", {"a": "FAILED", "b": "FAILED", "c": "FAILED", "e": "CANCELLED"}),
    "waits": ("finished", {"a": "COMPLETED", "pause": "COMPLETED", "morning": "COMPLETED", "late": "FAILED", "b": "COMPLETED"}),
    "events": ("finished", {"a": "COMPLETED", "paid": "COMPLETED", "late": "FAILED", "b": "COMPLETED"}),
    "round_two": ("failed", {"b": "COMPLETED", "c": "CANCELLED"}),
    "defect": ("failed", {"a": "CANCELLED", "b": "CANCELLED"}),
    "replaced": ("finished", {"a": "COMPLETED", "b": "COMPLETED"}),
    "mistyped": ("finished", {"a": "COMPLETED"}),
    "handlers": (
        "failed",
        {"a": "COMPLETED", "b": "FAILED", "c": "COMPLETED", "e": "SKIPPED", "f": "FAILED", "alert": "COMPLETED", "clean": "COMPLETED"},
    ),
    "remote": ("cancelled", {"a": "CANCELLED", "b": "FAILED", "c": "COMPLETED"}),
    "cancelled_call": ("cancelled", {"a": "CANCELLED", "b": "CANCELLED"}),
    "queue": ("finished", {"a": "COMPLETED", "b": "COMPLETED", "c": "COMPLETED"}),
    "fan_out": ("finished", {"a": "COMPLETED", "b": "COMPLETED", "c": "COMPLETED"}),
    "retried": ("finished", {"b": "COMPLETED", "c": "COMPLETED"}),
    "rejected": ("finished", {"a": "COMPLETED", "b": "COMPLETED"}),
    "notified": ("failed", {"a": "FAILED"}),
    "named_failure": ("failed", {"a": "CANCELLED", "b": "FAILED", "alert": "COMPLETED"}),
    "finish_refused": ("failed", {"a": "FAILED", "b": "COMPLETED", "alert": "COMPLETED"}),
    "continued": ("failed", {"c": "COMPLETED"}),
    "fork": ("finished", {"a": "COMPLETED", "b": "COMPLETED", "c": "COMPLETED", "e": "COMPLETED"}),
}
OUTCOMES = {
    "stricter_fleet": "finished",
    "loop_stricter": "finished",
    "flow_stricter": "cancelled",
    "imported": "finished",
    "loop_imported": "finished",
    "flow_imported": "cancelled",
    "loop": "finished",
    "loop_child": "finished",
    "loop_below": "cancelled",
    "loop_gates": "finished",
    "loop_model": "finished",
    "loop_later": "finished",
    "loop_ladder": "failed",
    "loop_bound": "failed",
    "loop_cancel": "cancelled",
    "loop_fork": "finished",
    "loop_defect": "failed",
    "loop_guarded": "finished",
    "flow_guarded": "cancelled",
    "flow": "finished",
    "flow_child": "finished",
    "flow_child_cancel": "cancelled",
    "flow_sub_states": "finished",
    "flow_error": "failed",
    "flow_cancel": "cancelled",
    "flow_secret": "finished",
    "flow_interrupted": "finished",
    "flow_fork": "failed",
    "flow_constellation": "failed",
}
SCENES = {"constellation agent": agents.SCENES, "orchestration loop": loops.SCENES, "flow agent": flows.SCENES}
FORM_OF: dict[str, Form] = {scene.__name__: FORMS[name] for name, scenes in SCENES.items() for scene in scenes}
MACHINE_OF: dict[str, Machine[Any]] = {name: form.machine for name, form in FORM_OF.items()}


@functools.cache
def golden(name: str) -> list[Record]:
    return list(converted(MACHINE_OF[name], (msgspec.json.decode(line, type=Record) for line in path_of(name).read_bytes().splitlines())))


def replayed(name: str, records: list[Record]) -> Run[Any]:
    run: Run[Any] = Run(MACHINE_OF[name], records[0].run_id)
    run.replay(packer(MACHINE_OF[name]).unpack(record) for record in records)
    return run


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_journal_replays_to_its_end(name: str) -> None:
    run = replayed(name, golden(name))
    assert run.ended
    tasks = {key: str(task.status) for key, task in run.memory.constellation.tasks.items() if not task.item_of} if name in ENDS else {}
    assert (run.memory.outcome(), tasks) == ENDS.get(name, (OUTCOMES.get(name), {}))


@pytest.mark.parametrize("machine", [form.machine for form in FORMS.values()], ids=lambda machine: machine.name)
def test_every_event_and_effect_and_state_of_a_machine_is_in_some_golden_journal(machine: Machine[Any]) -> None:
    records = [record for name, its in MACHINE_OF.items() if its is machine for record in golden(name)]
    assert {kind_of(event) for event in machine.events} == {record.kind for record in records if not record.note}
    effects = {effect["type"] for record in records for effect in json.loads(record.body).get("effects", [])}
    assert {kind_of(effect) for effect in machine.effects} == effects
    assert {str(state) for state in machine.states} == {record.state for record in records}


def test_a_golden_conversation_says_what_it_said() -> None:
    run = replayed("flow", golden("flow"))
    assert run.memory.prompt == "4 small on the way."
    assert [it["state"] for it in state_history(golden("flow"))] == [
        "INITIALIZING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "PAUSED", "WAITING_FOR_APPROVAL", "RUNNING", "COMPLETED",
    ]  # fmt: skip


def test_a_golden_loop_found_what_it_found() -> None:
    memory = replayed("loop", golden("loop")).memory
    assert memory.answer["better"] == "longer, please"
    assert [finding.step_id for finding in memory.findings] == ["look", "left", "right", "text"]


def test_the_journal_of_a_model_has_what_was_said_and_used() -> None:
    assert replayed("limits", golden("limits")).memory.used == Usage(
        requests=3, input_tokens=240, output_tokens=60, cost_usd=0.03, model="m:x"
    )
    assert '"prompt":"what next?","reply":"{}"' in "".join(record.body for record in golden("limits"))


@pytest.mark.parametrize("name", GOLDEN)
def test_packing_what_was_unpacked_changes_nothing(name: str) -> None:
    def value_of(record: Record) -> dict[str, Any]:
        return {**msgspec.structs.asdict(record), "body": msgspec.json.decode(record.body)}

    pack = packer(MACHINE_OF[name])
    assert [value_of(pack.pack(pack.unpack(it))) for it in golden(name)] == [value_of(it) for it in golden(name)]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_store_that_holds_a_golden_journal_can_be_recovered_from(name: str) -> None:
    first, *more = golden(name)
    row = RunRow(run_id=first.run_id, machine=MACHINE_OF[name].name, title=name, state=first.state, seq=1)

    async def main() -> Any:
        store = MemoryStore()
        await store.submit(row, first, *more)
        live, _ = await load(store, MACHINE_OF[name], first.run_id)
        return live

    assert asyncio.run(main()).seq == len(more) + 1


@pytest.mark.parametrize("name", GOLDEN)
def test_a_journal_that_was_changed_is_not_believed(name: str) -> None:
    records = golden(name)
    other = next(str(state) for state in MACHINE_OF[name].states if state != records[-1].state)
    forged = msgspec.structs.replace(records[-1], state=other)
    with pytest.raises(JournalMismatch):
        replayed(name, [*records[:-1], forged])


def test_a_recorded_journal_is_never_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    before = {name: path_of(name).stat().st_mtime_ns for name in GOLDEN}
    assert main([*GOLDEN]) == 0
    assert capsys.readouterr().out.count("is recorded and stays as it is") == len(GOLDEN)
    assert {name: path_of(name).stat().st_mtime_ns for name in GOLDEN} == before
