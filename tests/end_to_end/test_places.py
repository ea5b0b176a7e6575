"""A device with one place, shared by processes: never two attempts at once, counted on the device, whatever is killed."""

from __future__ import annotations

import collections
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WITHIN_S = 120.0

Noted = tuple[str, int, str]


class Scene:
    """A device, its log, and the processes that use it."""

    def __init__(self, folder: Path) -> None:
        self.database, self.log, self.fleet = folder / "runs.db", folder / "device.log", folder / "fleet.toml"
        self.log.touch()
        self.fleet.write_text(f'[[devices]]\nid = "gpu"\nskills = ["{HERE}/places_skills.py:use"]\n', encoding="utf-8")
        self.owners: dict[str, subprocess.Popen[str]] = {}

    def drive(self, run: str, tasks: int, seconds: float) -> None:
        argv = [sys.executable, str(HERE / "places_owner.py"), str(self.database), str(self.fleet), run, str(tasks), str(seconds)]
        environment = {**os.environ, "DEVICE_LOG": str(self.log)}
        self.owners[run] = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end_of(self, run: str) -> str:
        return "".join(self.owners.pop(run).communicate(timeout=WITHIN_S)).strip()

    def noted(self) -> list[Noted]:
        lines = [line.split() for line in self.log.read_text(encoding="utf-8").splitlines()]
        return [(word, int(pid), key) for word, pid, key in lines]

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
        scene.drive(run, 4, 0.1)
    assert [scene.end_of(run) for run in ("r1", "r2")] == ["ended finished"] * 2
    noted = scene.noted()
    assert_never_two_at_once(noted)
    assert collections.Counter(word for word, _, _ in noted) == {"start": 8, "end": 8}


@pytest.mark.parametrize("victims", ["parent", "guardian", "performer", "all"])
def test_a_killed_process_frees_its_place_only_when_all_its_work_is_dead(scene: Scene, victims: str) -> None:
    scene.drive("r1", 2, 0.5)
    _, performer, _ = scene.wait_for(lambda noted: next((it for it in noted if it[0] == "start"), None))
    guardian = parent_of(performer)
    parent = parent_of(guardian)
    scene.drive("r2", 2, 0.05)
    assert parent == scene.owners["r1"].pid
    kill(*{"parent": [parent], "guardian": [guardian], "performer": [performer], "all": [parent, guardian, performer]}[victims])
    assert scene.end_of("r2") == "ended finished"
    first = scene.end_of("r1")
    if victims in ("parent", "all"):
        assert first == ""
        scene.drive("r1", 2, 0.05)
        first = scene.end_of("r1")
    assert first == "ended finished"
    assert_never_two_at_once(scene.noted())
    assert collections.Counter(word for word, _, _ in scene.noted()) == {"start": 5, "end": 4}


@pytest.mark.slow
def test_twenty_processes_that_are_killed_all_the_time_never_meet_on_the_device(scene: Scene) -> None:
    runs = [f"r{number}" for number in range(20)]
    for run in runs:
        scene.drive(run, 3, 0.05)
    seen: set[int] = set()
    for number in range(24):
        fresh = scene.wait_for(lambda noted: next((it for it in noted if it[0] == "start" and it[1] not in seen), None))
        seen.update(pid for _, pid, _ in scene.noted())
        with contextlib.suppress(OSError, IndexError):  # it may have ended meanwhile
            guardian = parent_of(fresh[1])
            kill(*([parent_of(guardian)], [guardian], [fresh[1]], [parent_of(guardian), guardian, fresh[1]])[number % 4])
        for run in runs:
            if scene.owners[run].poll() == -signal.SIGKILL:
                scene.end_of(run)
                scene.drive(run, 3, 0.05)
    ends = {run: scene.end_of(run) for run in runs}
    for run, end in ends.items():
        if end != "ended finished":
            scene.drive(run, 3, 0.05)
            assert scene.end_of(run) == "ended finished"
    noted = scene.noted()
    assert_never_two_at_once(noted)
    assert len({key for word, _, key in noted if word == "end"}) >= 60
