"""A run with an A2A agent: its owner is killed or stopped, and each of its messages is performed once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.command import run
from tests.support.a2a_process import AgentProcess

PLAN = {"tasks": [{"task_id": "work", "device": "agent", "description": "DO"}], "dependencies": []}


class Bench:
    """A fleet with one agent, a plan with one task for it, and the commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.agent = AgentProcess(folder / "agent")
        (folder / "fleet.toml").write_text(f'[[devices]]\nid = "agent"\nkind = "a2a"\nurl = "{self.agent.url}"\n')
        self.env = dict(os.environ)

    def start(self, words: str) -> subprocess.Popen[bytes]:
        """Start a run, and return its owner; the fixture ends it if the test fails."""
        (self.folder / "plan.json").write_text(json.dumps(PLAN).replace("DO", words))
        command = [sys.executable, "-m", "asterism.cli", "run", "plan.json", "--fleet", "fleet.toml", "--database", "runs.db"]
        self.owner = subprocess.Popen(command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return self.owner

    def asterism(self, *arguments: str) -> str:
        ended = run([*arguments, "--database", "runs.db"], env=self.env, cwd=self.folder, timeout=60)
        return ended.stdout + ended.stderr

    def only_run(self) -> str:
        rows = json.loads(self.asterism("runs", "--json"))
        return str(rows[0]["run"])

    def messages(self) -> list[str]:
        return self._noted("starts")

    def ended(self) -> list[str]:
        return self._noted("ends")

    def _noted(self, file: str) -> list[str]:
        path = self.agent.folder / file
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.agent.kill()
    made.owner.kill()
    made.owner.wait()


def wait_until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def attached(bench: Bench) -> str:
    """Wait until the journal has the handle of the task; return the id of the run."""
    wait_until(bench.messages)
    run_id = bench.only_run()
    wait_until(lambda: "attempt_attached" in bench.asterism("export", run_id))
    return run_id


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_task_of_an_agent_outlives_the_owner_of_its_run(bench: Bench, number: signal.Signals) -> None:
    owner = bench.start("held")
    run_id = attached(bench)
    owner.send_signal(number)
    owner.wait(timeout=60)
    bench.agent.say("release")
    assert "answer=42" in bench.asterism("resume", run_id)
    assert len(bench.messages()) == 1


def test_a_cancel_after_the_owner_was_killed_reaches_the_agent(bench: Bench) -> None:
    owner = bench.start("held")
    run_id = attached(bench)
    owner.kill()
    owner.wait(timeout=60)
    assert f"run {run_id} is cancelled" in bench.asterism("cancel", run_id)
    assert set(bench.ended()) == set(bench.messages())


def test_a_cancel_of_a_run_whose_agent_waits_for_an_answer_reaches_the_agent(bench: Bench) -> None:
    bench.start("ask").wait(timeout=60)
    run_id = bench.only_run()
    assert f"run {run_id} is cancelled" in bench.asterism("cancel", run_id)
    assert set(bench.ended()) == set(bench.messages())


def test_a_cancel_without_the_fleet_file_ends_the_run_and_names_the_task_that_goes_on(bench: Bench) -> None:
    bench.start("ask").wait(timeout=60)
    run_id = bench.only_run()
    (bench.folder / "fleet.toml").unlink()
    said = bench.asterism("cancel", run_id)
    assert f"nothing is stopped on the devices of run {run_id}, which cannot be opened" in said
    assert f"run {run_id} is cancelled" in said
    assert "may still run on agent" in bench.asterism("show", run_id)
    assert bench.ended() == []


def test_a_task_that_went_on_without_an_answer_ends_the_run_when_it_is_resumed(bench: Bench) -> None:
    """G2: the result was taken only by an answer."""
    bench.start("continue auth").wait(timeout=60)
    run_id = bench.only_run()
    assert "Sign in at" in bench.asterism("resume", run_id)
    bench.agent.say("continue")
    wait_until(bench.ended)
    assert "answer=42" in bench.asterism("resume", run_id)
    assert bench.asterism("inbox").strip() == "no open questions"
    assert len(bench.messages()) == 1


def test_a_question_of_an_agent_is_answered_in_another_process(bench: Bench) -> None:
    bench.start("ask").wait(timeout=60)
    run_id = bench.only_run()
    assert "Which GPU?" in bench.asterism("inbox")
    assert "chosen=the second" in bench.asterism("answer", run_id, "respond", "--value", '"the second"')
    assert len(bench.messages()) == 2
