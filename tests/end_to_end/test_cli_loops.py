"""Loops on the command line: run, show, log, answer, resume, fork; and a definition that is gone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.desk import Desk

LOOP = """
from asterism.loops import OrchestrationLoop, Worker

async def plan(view):
    return [
        {"step_id": "look", "worker": "look", "intent": view.request},
        {"step_id": "tell", "worker": "tell", "intent": "tell", "uses": ["look"]},
    ]

async def look(handoff):
    return {"seen": handoff.intent}

async def tell(handoff):
    return f"I saw {handoff.artifacts['look']['seen']}."

loop = OrchestrationLoop(plan=plan, workers={"look": look, "tell": tell})
asks = OrchestrationLoop(plan=plan, workers={"look": look, "tell": Worker(tell, requires_approval=True)})
no_loop = 1
"""


@pytest.fixture
def loops(desk: Desk) -> Desk:
    (desk.folder / "birds.py").write_text(LOOP, encoding="utf-8")
    return desk


def say(loops: Desk, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in the desk's folder, to its end."""
    return loops.do(*arguments, code=None, cwd=loops.folder)


def begun(loops: Desk, name: str = "asks") -> str:
    done = say(loops, "loop", "run", f"birds.py:{name}", "a heron")
    return done.stdout.split()[1]


def test_a_loop_is_run_and_says_what_each_step_found(loops: Desk) -> None:
    done = say(loops, "loop", "run", "birds.py:loop", "a heron", "--result-file", "result.json")
    assert done.returncode == 0, done.stderr
    told = [line.partition("  ")[2] for line in done.stdout.splitlines() if "  " in line]
    assert "planned 2 steps" in told
    assert "look  found seen=a heron" in told
    assert "COMPLETE: finished" in done.stdout
    assert "I saw a heron." in done.stdout
    result = json.loads((loops.folder / "result.json").read_text(encoding="utf-8"))
    assert (result["outcome"], result["answer"], len(result["findings"])) == ("finished", "I saw a heron.", 2)


def test_a_loop_that_waits_is_answered_shown_and_logged(loops: Desk) -> None:
    run = begun(loops)
    assert say(loops, "runs").stdout.count("waiting for a person") == 1
    assert "tell: waits for a person" in say(loops, "why", run, "tell").stdout
    answered = say(loops, "answer", run, "approve")
    assert answered.returncode == 0, answered.stderr
    shown = say(loops, "show", run).stdout
    for words in ("finished  COMPLETE", "I saw a heron.", "EXECUTING", "handed to tell: tell", "2 steps, 0 replans, 2 reflections"):
        assert words in shown
    data = json.loads(say(loops, "show", run, "--json").stdout)
    assert (data["answer"], [step["state"] for step in data["states"]][-1]) == ("I saw a heron.", "COMPLETE")
    why = say(loops, "why", run, "tell").stdout
    assert 'tell: ok ("I saw a heron.")' in why
    assert "planned for tell: tell" in why
    log = say(loops, "log", run).stdout
    assert "the reflection says continue" in log
    assert "OBSERVING → REFLECTING" in log


def test_a_fork_of_a_loop_is_set_beside_its_origin(loops: Desk) -> None:
    run = begun(loops)
    say(loops, "answer", run, "approve")
    forked = say(loops, "fork", run, "--at", "6")
    assert forked.returncode == 3, forked.stderr
    other = forked.stdout.split()[1]
    say(loops, "answer", other, "reject", "--reason", "no more")
    shown = say(loops, "show", other).stdout
    assert f"forked from {run} at entry 6" in shown
    assert "tell  denied" in shown


def test_a_loop_whose_definition_is_gone_is_shown_but_not_driven_and_nothing_of_it_is_lost(loops: Desk) -> None:
    run = begun(loops)
    (loops.folder / "birds.py").rename(loops.folder / "gone.py")
    assert say(loops, "show", run).returncode == 0
    assert say(loops, "log", run).returncode == 0
    refused = say(loops, "resume", run)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"asterism: run {run}: the loop birds.py:asks cannot be found from ")
    assert len(refused.stderr.splitlines()) == 1
    (loops.folder / "gone.py").rename(loops.folder / "birds.py")
    assert say(loops, "answer", run, "approve").returncode == 0


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("birds.py:nothing", "birds.py has no nothing"),
        ("birds.py:no_loop", "is no OrchestrationLoop but a int"),
        ("birds", "a loop is written module:name or file.py:name"),
        ("none.toml", "the loop cannot be read"),
    ],
)
def test_a_loop_that_cannot_be_used_is_one_line_and_writes_nothing(loops: Desk, named: str, why: str) -> None:
    done = say(loops, "loop", "run", named, "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not Path(loops.database).exists()


def test_a_cancelled_loop_is_cancelled_and_not_failed(loops: Desk) -> None:
    run = begun(loops)
    assert say(loops, "cancel", run, "--reason", "enough").returncode == 0
    assert "cancelled  CANCELLED" in say(loops, "show", run).stdout
