"""A device with one place, shared by processes: never two attempts at once, counted on the device, whatever is killed."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import asterism
from asterism.engine.control.run_control import Verb
from asterism.engine.kernel.journal import Record
from asterism.errors import RunNotFound

HERE = Path(__file__).parent
WITHIN_S = 120.0

Noted = tuple[str, int, str]


class Scene:
    """A device, its log, and the processes that use it."""

    def __init__(self, folder: Path) -> None:
        self.database, self.log, self.fleet = folder / "runs.db", folder / "device.log", folder / "fleet.toml"
        self.log.touch()
        skills = [f"{HERE}/places_skills.py:{name}" for name in ("use", "use_once")]
        self.fleet.write_text(f'[[devices]]\nid = "gpu"\nskills = {skills}\n', encoding="utf-8")
        self.owners: dict[str, subprocess.Popen[str]] = {}

    def drive(self, run: str, *seconds: float, skill: str = "use") -> None:
        argv = [sys.executable, str(HERE / "places_owner.py"), str(self.database), str(self.fleet), run, skill, *map(str, seconds)]
        environment = {**os.environ, "DEVICE_LOG": str(self.log)}
        self.owners[run] = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end_of(self, run: str) -> str:
        return "".join(self.owners.pop(run).communicate(timeout=WITHIN_S)).strip()

    def noted(self) -> list[Noted]:
        lines = [line.split() for line in self.log.read_text(encoding="utf-8").splitlines()]
        return [(word, int(pid), key) for word, pid, key, _ in lines]

    def at(self, word: str, run: str) -> float:
        """When the device first noted this word of a run, in seconds since the epoch."""
        lines = [line.split() for line in self.log.read_text(encoding="utf-8").splitlines()]
        return min(float(at) for noted, _, key, at in lines if noted == word and key.startswith(f"{run}:"))

    def records(self, run: str) -> list[Record]:
        async def read() -> list[Record]:
            async with asterism.connect(self.database) as client:
                return await client.records(run)

        return asyncio.run(read())

    def wait_for_entry(self, run: str, kind: str) -> None:
        give_up = time.monotonic() + WITHIN_S
        while time.monotonic() < give_up:
            with contextlib.suppress(RunNotFound):
                if kind in (it.kind for it in self.records(run)):
                    return
            time.sleep(0.05)
        raise AssertionError(f"no {kind} in {[it.kind for it in self.records(run)]}")

    def answer(self, run: str, verb: Verb, value: Any = None) -> str:
        """Answer the only open question of a run; return its prompt."""

        async def answer() -> str:
            async with asterism.connect(self.database) as client:
                (question,) = await client.inquiries(root=run)
                await client.post_answer(question.inquiry_id, verb, actor="test", value=value)
                return question.prompt

        return asyncio.run(answer())

    def wait_for(self, found: Callable[[list[Noted]], Noted | None]) -> Noted:
        give_up = time.monotonic() + WITHIN_S
        while time.monotonic() < give_up:
            if it := found(self.noted()):
                return it
            time.sleep(0.01)
        raise AssertionError(f"the device has noted only {self.noted()}")

    def close(self) -> None:
        for owner in self.owners.values():
            with owner:
                owner.kill()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.close()


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(stat.rpartition(")")[2].split()[1])


def kill_those(victims: str, performer: int) -> None:
    """Kill the performer of an attempt, the worker that forked it, its guardian, the process that dispatched it, or all of them."""
    worker = parent_of(performer)
    guardian = parent_of(worker)
    parent = parent_of(guardian)
    every = {"parent": parent, "guardian": guardian, "worker": worker, "performer": performer}
    kill(*(every.values() if victims == "all" else [every[victims]]))


def kill(*pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def assert_never_two_at_once(noted: list[Noted]) -> None:
    assert [it for it in noted if it[0] == "clash"] == []
    under_way: Noted | None = None
    for word, pid, key in noted:
        if word == "start":
            assert under_way is None or under_way[1] != pid
            under_way = (word, pid, key)
        else:
            assert under_way is not None
            assert (pid, key) == under_way[1:]
            under_way = None


def test_two_processes_take_turns_on_a_device_with_one_place(scene: Scene) -> None:
    for run in ("r1", "r2"):
        scene.drive(run, *[0.1] * 4)
    assert [scene.end_of(run) for run in ("r1", "r2")] == ["ended finished"] * 2
    noted = scene.noted()
    assert_never_two_at_once(noted)
    assert collections.Counter(word for word, _, _ in noted) == {"start": 8, "end": 8}


def test_fleets_in_python_with_a_name_share_places_with_each_other_and_with_a_file_of_that_name(scene: Scene) -> None:
    scene.fleet.write_text('name = "lab"\n' + scene.fleet.read_text(encoding="utf-8"), encoding="utf-8")
    scene.drive("r0", *[0.1] * 4)
    scene.fleet = Path("-")
    for run in ("r1", "r2"):
        scene.drive(run, *[0.1] * 4)
    assert [scene.end_of(run) for run in ("r0", "r1", "r2")] == ["ended finished"] * 3
    assert_never_two_at_once(scene.noted())
    assert collections.Counter(word for word, _, _ in scene.noted()) == {"start": 12, "end": 12}


@pytest.mark.parametrize("victims", ["parent", "guardian", "worker", "performer", "all"])
def test_a_killed_process_frees_its_place_only_when_all_its_work_is_dead(scene: Scene, victims: str) -> None:
    scene.drive("r1", 0.5, 0.5)
    _, performer, _ = scene.wait_for(lambda noted: next((it for it in noted if it[0] == "start"), None))
    scene.drive("r2", 0.05, 0.05)
    assert parent_of(parent_of(parent_of(performer))) == scene.owners["r1"].pid
    kill_those(victims, performer)
    assert scene.end_of("r2") == "ended finished"
    first = scene.end_of("r1")
    if victims in ("parent", "all"):
        assert first == ""
        scene.drive("r1", 0.05, 0.05)
        first = scene.end_of("r1")
    assert first == "ended finished"
    assert_never_two_at_once(scene.noted())
    assert collections.Counter(word for word, _, _ in scene.noted()) == {"start": 5, "end": 4}


@pytest.mark.parametrize("victims", ["parent", "guardian", "worker", "performer", "all"])
def test_attempts_that_waited_for_the_killed_one_start_once_and_nobody_is_asked_about_them(scene: Scene, victims: str) -> None:
    scene.drive("r1", 60.0, 0.05, 0.05, 0.05, skill="use_once")
    _, performer, first = scene.wait_for(lambda noted: next((it for it in noted if it[0] == "start"), None))
    kill_those(victims, performer)
    end = scene.end_of("r1")
    if victims in ("parent", "all"):
        assert end == ""
        scene.drive("r1")
        assert scene.end_of("r1").startswith("waiting")
        assert scene.answer("r1", "respond", value=7).startswith("t0 on gpu was interrupted and may have finished")
        scene.drive("r1")
        assert scene.end_of("r1") == "ended finished"
    else:
        assert end == "ended failed"  # its worker is dead, and nobody else can have done its work
        assert [it.kind for it in scene.records("r1")].count("answered") == 0
    assert_never_two_at_once(scene.noted())
    starts = collections.Counter(key for word, _, key in scene.noted() if word == "start")
    assert set(starts.values()) == {1}
    assert len(starts) == 4
    assert [key for word, _, key in scene.noted() if word == "end"] == [key for key in starts if key != first]


def test_attempts_that_waited_for_another_process_start_once_after_a_kill_and_nobody_is_asked(scene: Scene) -> None:
    scene.drive("r0", 60.0)
    scene.wait_for(lambda noted: noted[0] if noted else None)
    scene.drive("r1", *[0.05] * 4, skill="use_once")
    scene.wait_for_entry("r1", "attempt_queued")
    for run in ("r1", "r0"):
        scene.owners[run].kill()
        assert scene.end_of(run) == ""
    scene.drive("r1")
    assert scene.end_of("r1") == "ended finished"
    assert_never_two_at_once(scene.noted())
    assert collections.Counter(word for word, _, key in scene.noted() if key.startswith("r1:")) == {"start": 4, "end": 4}


def test_a_process_that_waits_gets_the_place_soon_after_another_one_frees_it(scene: Scene) -> None:
    scene.drive("r0", 3.0)
    scene.wait_for(lambda noted: noted[0] if noted else None)
    scene.drive("r1", 0.05)
    scene.wait_for_entry("r1", "attempt_queued")
    assert [scene.end_of(run) for run in ("r0", "r1")] == ["ended finished"] * 2
    waited_s = scene.at("start", "r1") - scene.at("end", "r0")
    print(f"waited {waited_s:.2f} s")  # the figure in docs/results
    assert 0 < waited_s < 5


@pytest.mark.slow
def test_twenty_processes_that_are_killed_all_the_time_never_meet_on_the_device(scene: Scene) -> None:
    runs = [f"r{number}" for number in range(20)]
    for run in runs:
        scene.drive(run, *[0.05] * 3)
    seen: set[int] = set()
    for number in range(24):
        fresh = scene.wait_for(lambda noted: next((it for it in noted if it[0] == "start" and it[1] not in seen), None))
        seen.update(pid for _, pid, _ in scene.noted())
        with contextlib.suppress(OSError, IndexError):  # it may have ended meanwhile
            kill_those(("parent", "guardian", "performer", "all")[number % 4], fresh[1])
        for run in runs:
            if scene.owners[run].poll() == -signal.SIGKILL:
                scene.end_of(run)
                scene.drive(run, *[0.05] * 3)
    ends = {run: scene.end_of(run) for run in runs}
    for run, end in ends.items():
        if end != "ended finished":
            scene.drive(run, *[0.05] * 3)
            assert scene.end_of(run) == "ended finished"
    noted = scene.noted()
    assert_never_two_at_once(noted)
    assert len({key for word, _, key in noted if word == "end"}) >= 60
    words = collections.Counter(word for word, _, _ in noted)
    # The figures in docs/results
    print(f"{words['start']} attempts, {words['end']} to their end, 24 kills, {words['clash']} met another one")
