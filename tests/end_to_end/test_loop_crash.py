"""Loops in real processes that are killed: at entries, inside functions, and by two at once."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ANSWER = [["a", {}], ["b", {"a": ["a", {}]}]]
ENTRIES = 14


class Scene:
    """A database, and a log of what was done."""

    def __init__(self, folder: Path) -> None:
        self.database, self.log = folder / "runs.db", folder / "done.log"
        self.log.touch()

    def argv(self, what: str, *, die_after: int = 0, die_in: str = "-") -> list[str]:
        return [sys.executable, str(HERE / "loop_owner.py"), str(self.database), str(self.log), what, str(die_after), die_in]

    def owner(self, what: str, *, die_after: int = 0, die_in: str = "-") -> str:
        argv = self.argv(what, die_after=die_after, die_in=die_in)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert done.stderr == ""
        return done.stdout.strip()

    def done(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def assert_same_end(scene: Scene) -> None:
    assert json.loads(scene.owner("resume")) == ANSWER
    assert len(set(scene.done())) == 6


@pytest.mark.parametrize("seq", [3, 7])
def test_a_loop_killed_after_an_entry_comes_to_the_same_answer(scene: Scene, seq: int) -> None:
    assert scene.owner("new", die_after=seq) == ""
    assert_same_end(scene)


@pytest.mark.slow
@pytest.mark.parametrize("seq", range(1, ENTRIES))
def test_a_loop_killed_after_any_entry_comes_to_the_same_answer(scene: Scene, seq: int) -> None:
    assert scene.owner("new", die_after=seq) == ""
    assert_same_end(scene)


@pytest.mark.parametrize("name", ["work_b", "synthesize"])
def test_a_loop_killed_inside_a_function_does_it_again_under_the_same_key(scene: Scene, name: str) -> None:
    assert scene.owner("new", die_in=name) == ""
    assert_same_end(scene)
    assert [line.split()[0] for line in scene.done()].count(name) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plan", "work_a", "reflect"])
def test_a_loop_killed_inside_any_function_comes_to_the_same_answer(scene: Scene, name: str) -> None:
    assert scene.owner("new", die_in=name) == ""
    assert_same_end(scene)


def test_an_uninterrupted_loop_comes_to_that_answer_too(scene: Scene) -> None:
    assert json.loads(scene.owner("new")) == ANSWER
    assert len(scene.done()) == 6
    with contextlib.closing(sqlite3.connect(scene.database)) as database:
        assert database.execute("SELECT count(*) FROM entries").fetchone() == (ENTRIES,)


def test_a_worker_that_may_not_be_repeated_is_not_and_a_person_is_asked(scene: Scene) -> None:
    assert scene.owner("new-once", die_in="work_b") == ""
    assert scene.owner("resume-once") == "WAITING"
    assert [line.split()[0] for line in scene.done()].count("work_b") == 1


def test_a_process_that_finds_a_loop_driven_does_nothing_of_it(scene: Scene) -> None:
    argv = scene.argv("new", die_in="=work_b")
    owner = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "there\n"
    before = scene.done()
    rival = subprocess.run(scene.argv("resume"), capture_output=True, text=True, timeout=60, check=False)
    assert "RunOwned: run r1 is being driven by" in rival.stderr
    assert (rival.stdout, scene.done()) == ("", before)
    said, _ = owner.communicate("go on\n", timeout=60)
    assert json.loads(said) == ANSWER


def test_of_two_processes_that_resume_at_once_one_goes_on_and_nothing_is_done_twice(scene: Scene) -> None:
    assert scene.owner("new", die_after=5) == ""
    before = scene.done()
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    rivals = [subprocess.Popen(scene.argv("resume"), **pipes) for _ in range(2)]
    said = [rival.communicate(timeout=60) for rival in rivals]
    assert any(out and json.loads(out) == ANSWER for out, _ in said)
    assert all((out and json.loads(out) == ANSWER) or "RunOwned: run r1 is being driven by" in err for out, err in said)
    after = scene.done()[len(before) :]
    assert len(after) == len(set(after))
