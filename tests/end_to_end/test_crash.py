"""kill -9 with real processes: whatever was durable is kept, nothing is done twice that may not be, nothing is left working."""

from __future__ import annotations

import asyncio
import collections
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asterism.app.bootstrap import FORMS
from asterism.engine.control.run_control import Verb
from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.machine import EffectResult, kind_of
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.stores.sqlite import SqliteStore
from tests.support.constellations import seed

HERE = Path(__file__).parent
NEVER = 10_000
ENTRIES = 11
"""Entries of the uninterrupted run: submitted, claimed, then BatchEnded and TaskEnded in turn, and the last BatchEnded."""

PLAN = seed("creation")["constellation"]


class Scene:
    """A database, a fleet and a log of what was performed."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.database = folder / "runs.db"
        self.log = folder / "performed.log"
        self.fifo = folder / "fifo"
        self.fleet = folder / "fleet.toml"
        skills = {"laptop": "download_mnist", "gpu_server": "train_cnn", "test_server": "evaluate", "prod_server": "deploy"}
        tables = [
            f'[[devices]]\nid = "{device}"\nkind = "local"\nskills = ["{HERE}/crash_skills.py:{name}"]\n' for device, name in skills.items()
        ]
        self.fleet.write_text("\n".join(tables), encoding="utf-8")
        self.owners: list[subprocess.Popen[str]] = []
        self.log.touch()
        os.mkfifo(self.fifo)

    def owner(self, *, new: bool, die_after: int = NEVER, block: str = "") -> subprocess.Popen[str]:
        argv = [sys.executable, str(HERE / "crash_owner.py"), str(self.database), str(self.fleet), "r1"]
        environment = {**os.environ, "CRASH_LOG": str(self.log), "CRASH_FIFO": str(self.fifo), "CRASH_BLOCK": block}
        argv += [json.dumps(self.plan) if new else "-", str(die_after)]
        owner = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.owners.append(owner)
        return owner

    def close(self) -> None:
        """Leave no owner behind, whatever a test found."""
        for owner in self.owners:
            with owner:
                owner.kill()

    def drive(self, *, new: bool = False, die_after: int = NEVER) -> str:
        out, err = self.owner(new=new, die_after=die_after).communicate(timeout=60)
        return (out + err).strip()

    def performed(self) -> list[tuple[str, str]]:
        """(task id, key) of every performance, in order."""
        return [(line.split()[1], line.split()[2]) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def records(self, run_id: str = "r1") -> list[Record]:
        async def read() -> list[Record]:
            store = SqliteStore.open(self.database, create=False)
            try:
                return await store.records(run_id)
            finally:
                await store.close()

        return asyncio.run(read())

    def answer(self, verb: Verb, **more: Any) -> str:
        """Answer the one open question from this process, which drives nothing."""

        async def say() -> str:
            store = SqliteStore.open(self.database, create=False)
            try:
                client = Client(store, SystemClock(), {})
                (asked,) = await store.inquiries(root="r1")
                await client.post_answer(asked.inquiry_id, verb, actor="ada", **more)
                return asked.prompt
            finally:
                await store.close()

        return asyncio.run(say())


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path, PLAN)
    yield scene
    scene.close()


OUTCOMES = {kind_of(event) for form in FORMS.values() for event in form.machine.events if issubclass(event, EffectResult)}


def assert_each_effect_has_one_outcome(records: list[Record]) -> None:
    asked = [
        f"{record.run_id}:{record.seq}.{index}" for record in records for index in range(len(json.loads(record.body).get("effects", [])))
    ]
    accepted = [json.loads(record.body)["event"]["effect_id"] for record in records if record.kind in OUTCOMES and not record.note]
    assert collections.Counter(accepted) == dict.fromkeys(asked, 1)


def assert_gone(pid: int) -> None:
    """Bounded wait for the end of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([descriptor], [], [], 20)
        assert ended, f"process {pid} still works"
    finally:
        os.close(descriptor)


def crash_after_and_resume(scene: Scene, seq: int) -> None:
    assert scene.drive(new=True, die_after=seq) == ""
    before = collections.Counter(task for task, _ in scene.performed())
    said = scene.drive()
    if said.startswith("waiting"):  # killed between the entry that dispatched deploy and its outcome
        assert "was interrupted and may have finished" in scene.answer("approve")
        said = scene.drive()
    assert said == "ended finished"
    assert all(count == 1 for task, count in before.items() if task != "task_004")
    assert collections.Counter(task for task, _ in scene.performed()) == {f"task_00{n}": 1 for n in range(1, 5)}
    assert_each_effect_has_one_outcome(scene.records())


@pytest.mark.parametrize("seq", [2, 3, 6, 10])
def test_a_run_killed_after_an_entry_goes_on_from_there(scene: Scene, seq: int) -> None:
    crash_after_and_resume(scene, seq)


@pytest.mark.slow
@pytest.mark.parametrize("seq", range(2, ENTRIES + 1))
def test_a_run_killed_after_any_entry_reaches_the_same_end(scene: Scene, seq: int) -> None:
    if seq == ENTRIES:
        assert scene.drive(new=True, die_after=seq) == ""
        assert scene.drive() == "ended finished"
        assert [record.state for record in scene.records()][-1] == "FINISH"
        return
    crash_after_and_resume(scene, seq)


def test_an_uninterrupted_run_has_as_many_entries_as_the_tests_above_kill_at(scene: Scene) -> None:
    assert scene.drive(new=True) == "ended finished"
    assert len(scene.records()) == ENTRIES
    assert_each_effect_has_one_outcome(scene.records())


def kill_in_the_middle_of(scene: Scene, name: str) -> None:
    owner = scene.owner(new=True, block=name)
    with scene.fifo.open(encoding="utf-8") as fifo:
        worker = int(fifo.readline())
    owner.send_signal(signal.SIGKILL)
    owner.communicate(timeout=20)
    assert_gone(worker)


def test_an_idempotent_skill_killed_in_the_middle_is_redone_under_the_same_key(scene: Scene) -> None:
    kill_in_the_middle_of(scene, "train_cnn")
    assert scene.drive() == "ended finished"
    keys = [key for task, key in scene.performed() if task == "task_002"]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert_each_effect_has_one_outcome(scene.records())


@pytest.mark.parametrize(
    ("verb", "more", "performances", "end"),
    [
        ("approve", {}, 2, "ended finished"),
        ("respond", {"value": {"deployed": True}}, 1, "ended finished"),
        ("reject", {"reason": "leave it"}, 1, "ended failed"),
    ],
)
def test_a_skill_that_may_not_be_repeated_is_asked_about(
    scene: Scene, verb: Verb, more: dict[str, Any], performances: int, end: str
) -> None:
    kill_in_the_middle_of(scene, "deploy")
    assert scene.drive() == "waiting"
    assert len([task for task, _ in scene.performed() if task == "task_004"]) == 1
    assert "Run it again?" in scene.answer(verb, **more)
    assert scene.drive() == end
    assert len([task for task, _ in scene.performed() if task == "task_004"]) == performances
    assert_each_effect_has_one_outcome(scene.records())


def test_of_two_processes_that_resume_one_run_exactly_one_goes_on(scene: Scene) -> None:
    owner = scene.owner(new=True, block="evaluate")
    with scene.fifo.open(encoding="utf-8") as fifo:
        fifo.readline()
    said = scene.drive()
    assert said.startswith("RunOwned: run r1 is being driven by process")
    assert str(owner.pid) in said
    assert [record.kind for record in scene.records()].count("ownership_acquired") == 1
    owner.kill()
    owner.communicate(timeout=20)
    assert scene.drive() == "ended finished"


@pytest.mark.slow
def test_of_many_that_resume_at_once_exactly_one_goes_on(scene: Scene) -> None:
    assert scene.drive(new=True, die_after=3) == ""
    rivals = [scene.owner(new=False) for _ in range(5)]
    said = ["".join(rival.communicate(timeout=60)).strip() for rival in rivals]
    assert all(words == "ended finished" or words.startswith("RunOwned") for words in said)
    assert "ended finished" in said
    assert collections.Counter(task for task, _ in scene.performed()) == {f"task_00{n}": 1 for n in range(1, 5)}
    assert_each_effect_has_one_outcome(scene.records())
