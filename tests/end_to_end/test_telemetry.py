"""The spans that real processes export tell a run's whole story, also when one of them is killed and another goes on."""

from __future__ import annotations

import asyncio
import collections
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.machine import make_effect_id
from asterism.stores.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
RUN = "261121-9f3c01ab"
NEVER = 10_000
LAST = 11
"""Entries of the uninterrupted run."""

PLAN = {
    "tasks": [
        {"task_id": "task_001", "name": "download_mnist", "device": "laptop", "inputs": {"mirror": "SECRET-mirror"}},
        {"task_id": "task_002", "name": "train_cnn", "device": "gpu_server", "description": "SECRET-words"},
        {"task_id": "task_003", "name": "evaluate", "device": "test_server"},
        {"task_id": "task_004", "name": "deploy", "device": "prod_server"},
    ],
    "dependencies": [
        {"from": "task_001", "to": "task_002"},
        {"from": "task_002", "to": "task_003"},
        {"from": "task_003", "to": "task_004", "condition": "accuracy > 0.95"},
    ],
}

Span = dict[str, Any]


class Scene:
    """A database, and one file of spans for each process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "runs.db"
        self.processes = 0

    def own(self, *, new: bool, die_after: int = NEVER) -> str:
        """Have a process take the run as far as it goes; what it says."""
        self.processes += 1
        spans = self.folder / f"spans-{self.processes}.jsonl"
        plan = json.dumps(PLAN) if new else "-"
        argv = [sys.executable, "-m", "tests.end_to_end.telemetry_owner", str(self.database), str(spans), RUN, plan, str(die_after)]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
        return (done.stdout + done.stderr).strip()

    def spans(self) -> list[list[Span]]:
        """The spans of each process, in the order they ended."""
        files = [self.folder / f"spans-{number}.jsonl" for number in range(1, self.processes + 1)]
        return [[json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] for file in files]

    def records(self) -> list[Record]:
        async def read() -> list[Record]:
            store = SqliteStore.open(self.database, create=False)
            try:
                return await store.records(RUN)
            finally:
                await store.close()

        return asyncio.run(read())


def said(span: Span, name: str) -> Any:
    return span["attributes"].get(f"asterism.{name}")


def id_of(span: Span) -> str:
    return str(span["context"]["span_id"])


def assert_whole_story(records: list[Record], processes: list[list[Span]]) -> None:
    """One span for each transition and each effect of the journal, and every one where it belongs."""
    spans = [span for process in processes for span in process]
    bodies = {record.seq: json.loads(record.body) for record in records}
    effects = {
        make_effect_id(RUN, seq, index): effect for seq, body in bodies.items() for index, effect in enumerate(body.get("effects", []))
    }
    transitions = collections.Counter(said(span, "seq") for span in spans if said(span, "kind") == "transition")
    ended = collections.Counter(said(span, "effect_id") for span in spans if said(span, "kind") == "effect")
    assert transitions == dict.fromkeys(bodies, 1)
    assert ended == dict.fromkeys(effects, 1)
    assert len(spans) == len(records) + len(effects)

    digest = hashlib.sha256(RUN.encode()).hexdigest()
    run = f"0x{digest[32:48]}"
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{digest[:32]}"}
    for process in processes:
        by_seq = {said(span, "seq"): id_of(span) for span in process if said(span, "kind") == "transition"}
        by_effect = {said(span, "effect_id"): span for span in process if said(span, "kind") == "effect"}
        for seq, span_id in by_seq.items():
            (span,) = (it for it in process if id_of(it) == span_id)
            settled = bodies[seq]["event"].get("effect_id")
            assert span["parent_id"] == (id_of(by_effect[settled]) if settled else run)
        for effect, span in by_effect.items():
            asked_at = int(effect.rpartition(":")[2].partition(".")[0])
            assert span["parent_id"] == by_seq.get(asked_at, run)  # run: another process asked for it
            if effects[effect]["type"] == "dispatch":
                assert said(span, "task") == effects[effect]["task_id"]
                assert said(span, "device") == effects[effect]["device"]
                assert said(span, "skill") == effects[effect]["skill"]
    text = json.dumps(spans)
    assert "SECRET" not in text
    assert "0.987654321" not in text
    assert "SECRET" in "".join(record.body for record in records)


def outcomes(processes: list[list[Span]], task: str) -> list[str]:
    found = [span for process in processes for span in process if said(span, "task") == task]
    return [said(span, "outcome") for span in sorted(found, key=lambda span: str(span["start_time"]))]


def test_the_spans_of_a_run_tell_its_whole_story(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert scene.own(new=True) == "ended finished"
    records, processes = scene.records(), scene.spans()
    assert len(records) == LAST
    assert len(processes[0]) == LAST + 4
    assert_whole_story(records, processes)
    assert [outcomes(processes, f"task_00{number}") for number in (1, 2, 3, 4)] == [["completed"]] * 4


@pytest.mark.parametrize("seq", [2, 5, pytest.param(9, id="deploy is under way")])
def test_two_processes_write_one_story_when_the_first_is_killed(tmp_path: Path, seq: int) -> None:
    killed_after(tmp_path, seq)


@pytest.mark.slow
@pytest.mark.parametrize("seq", range(2, LAST + 1))
def test_two_processes_write_one_story_wherever_the_first_is_killed(tmp_path: Path, seq: int) -> None:
    killed_after(tmp_path, seq)


def killed_after(folder: Path, seq: int) -> None:
    scene = Scene(folder)
    assert scene.own(new=True, die_after=seq) == ""
    assert scene.own(new=False) == "ended finished"
    assert_whole_story(scene.records(), scene.spans())
    if seq == 9:
        assert outcomes(scene.spans(), "task_004") == ["interrupted", "approve", "completed"]
