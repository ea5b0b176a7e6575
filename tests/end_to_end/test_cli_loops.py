"""Loops on the command line: run, show, log, answer, resume, fork; and a definition that is gone."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from asterism.testing.model_wire import Say
from asterism.testing.scripted_model import ScriptedModel
from tests.end_to_end.desk import TIMEOUT_S, Desk

LOOP = """
import os
import signal
from asterism.loop.python import OrchestrationLoop, Worker

async def plan(view):
    return [
        {"step_id": "look", "worker": "look", "intent": view.request},
        {"step_id": "tell", "worker": "tell", "intent": "tell", "uses": ["look"]},
    ]

async def look(handoff):
    return {"seen": handoff.intent}

async def tell(handoff):
    with open("told.txt", "a") as told:
        told.write("told\\n")
    return f"I saw {handoff.artifacts['look']['seen']}."

async def dies(handoff):
    with open("told.txt", "a") as told:
        told.write("died\\n")
    if open("told.txt").read().count("died") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"

loop = OrchestrationLoop(plan=plan, workers={"look": look, "tell": tell})
killed = OrchestrationLoop(plan=plan, workers={"look": look, "tell": Worker(dies, idempotent=True)})
once = OrchestrationLoop(plan=plan, workers={"look": look, "tell": dies})
asks = OrchestrationLoop(plan=plan, workers={"look": look, "tell": Worker(tell, requires_approval=True)})
no_loop = 1
"""

TOML = """
model = "openai:gpt-4o"
reflect = "openai:gpt-4o-mini"

[workers.clerk]
instructions = "You calculate."
[[workers.clerk.tools]]
function = "sums.py:double"
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
    assert say(loops, "runs").stdout.count("  waiting  ") == 1
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
    assert "reflection: continue" in log
    assert "OBSERVING → REFLECTING" in log


def test_a_loop_that_was_killed_is_resumed_at_the_step_it_was_in(loops: Desk) -> None:
    run = begun(loops, "killed")
    resumed = say(loops, "resume", run)
    assert resumed.returncode == 0, resumed.stderr
    assert 'answer: "alive"' in resumed.stdout
    log = say(loops, "log", run).stdout
    assert (log.count("handed to look"), log.count("resumed by")) == (1, 1)


@pytest.mark.slow
def test_a_loop_that_was_killed_in_a_step_that_may_not_be_repeated_asks_and_says_why(loops: Desk) -> None:
    run = begun(loops, "once")
    resumed = say(loops, "resume", run)
    assert resumed.returncode == 3, resumed.stderr
    assert "waits for a person: tell was interrupted in tell (tell) and may have finished. Run it again?" in resumed.stdout
    assert say(loops, "answer", run, "respond", "--value", '"by hand"').returncode == 0
    assert 'tell: ok ("by hand")' in say(loops, "why", run, "tell").stdout


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
    assert "this works only for constellations" in say(loops, "show", run, "--mermaid").stderr
    refused = say(loops, "resume", run)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"asterism: run {run}: the loop birds.py:asks cannot be found from ")
    assert len(refused.stderr.splitlines()) == 1
    (loops.folder / "gone.py").rename(loops.folder / "birds.py")
    assert say(loops, "answer", run, "approve").returncode == 0


def test_a_loop_whose_definition_is_gone_for_good_can_be_cancelled_and_is_not_failed(loops: Desk) -> None:
    run = begun(loops)
    (loops.folder / "birds.py").unlink()
    assert say(loops, "cancel", run, "--reason", "enough").returncode == 0
    assert "cancelled  CANCELLED" in say(loops, "show", run).stdout


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("birds.py:nothing", "birds.py has no nothing"),
        ("birds.py:no_loop", "is not an OrchestrationLoop but a int"),
        ("birds", "write module:name or file.py:name"),
        ("none.toml", "the loop cannot be read"),
    ],
)
def test_a_loop_that_cannot_be_used_is_one_line_and_writes_nothing(loops: Desk, named: str, why: str) -> None:
    done = say(loops, "loop", "run", named, "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not Path(loops.database).exists()


@pytest.mark.slow
def test_three_processes_that_approve_at_once_have_it_done_once(loops: Desk) -> None:
    run = begun(loops)
    argv = loops.argv("answer", run, "approve")
    more: dict[str, Any] = {"cwd": loops.folder, "env": loops.environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    answering = [subprocess.Popen(argv, text=True, **more) for _ in range(3)]
    said = [each.communicate(timeout=TIMEOUT_S)[1] for each in answering]
    assert sorted(each.returncode for each in answering) == [0, 1, 1]
    assert sum("was answered already: approve by" in it or "is no longer open: approve" in it for it in said) == 2
    assert (loops.folder / "told.txt").read_text(encoding="utf-8") == "told\n"


@pytest.mark.slow
def test_a_loop_in_toml_is_run_with_a_model_and_tools(loops: Desk) -> None:
    (loops.folder / "sums.py").write_text("def double(number: int) -> int:\n    return 2 * number\n", encoding="utf-8")
    (loops.folder / "sums.toml").write_text(TOML, encoding="utf-8")

    async def scene() -> tuple[int | None, str, list[str]]:
        plan = '[{"step_id": "a", "worker": "clerk", "intent": "double 21"}]'
        script = [Say(text=plan), Say(calls=(("double", {"number": 21}),)), Say(text="42"), Say(text="done"), Say(text="It is 42.")]
        async with ScriptedModel(script) as model:
            environment = {**loops.environment(), "OPENAI_BASE_URL": model.openai_url, "OPENAI_API_KEY": "any"}
            argv = loops.argv("loop", "run", "sums.toml", "what is twice 21?")
            process = await asyncio.create_subprocess_exec(*argv, cwd=loops.folder, env=environment, stdout=subprocess.PIPE)
            out, _ = await process.communicate()
            return process.returncode, out.decode(), [request.model for request in model.requests]

    code, told, models = asyncio.run(scene())
    assert code == 0
    assert "It is 42." in told
    assert models == ["gpt-4o", "gpt-4o", "gpt-4o", "gpt-4o-mini", "gpt-4o"]


def test_a_loop_whose_model_has_no_key_is_refused_before_anything_is_written(loops: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (loops.folder / "loop.toml").write_text('model = "openai:gpt-4o"\n[workers.a]\ninstructions = "You look."\n', encoding="utf-8")
    refused = say(loops, "loop", "run", "loop.toml", "a heron")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "asterism: model openai:gpt-4o needs a key: set OPENAI_API_KEY in the environment\n"
    assert not loops.database.exists()


def test_a_loop_that_is_defined_wrongly_is_refused_as_such(loops: Desk) -> None:
    (loops.folder / "loop.toml").write_text(
        'steps = [{worker = "b", intent = "x"}]\n[workers.a]\nfunction = "birds.py:look"\n', encoding="utf-8"
    )
    refused = say(loops, "loop", "run", "loop.toml", "a heron")
    assert (refused.returncode, refused.stderr) == (2, "asterism: loop.toml: step 'step_1': there is no worker 'b'; there are a\n")
    assert not loops.database.exists()
