"""Flow agents as a user has them: real processes, killed for real, and a conversation that goes on."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
import zoneinfo
from pathlib import Path
from typing import Any

import pytest

from asterism.cli.chat import HELP
from tests.end_to_end import command

ROOT = Path(__file__).parents[2]
FLOWS = str(ROOT / "examples" / "flows" / "flows.py")
AGENT = """
import time
from asterism.conversation.python import AgentStatus, InputField, StandardAgent, flowagent


@flowagent(triggers=["pay"], requires_approval=True, description="Pay")
class Pay(StandardAgent):
    amount: int = InputField("How much?", ge=1, le=100)

    async def on_running(self, msg):
        with open("log", "a") as log:
            print(self.key, file=log, flush=True)
        for _ in range(400 if not __import__("pathlib").Path("quick").exists() else 0):
            await __import__("asyncio").sleep(0.05)
        return self.make_result(AgentStatus.COMPLETED, f"Paid {self.amount}.")


@flowagent(triggers=["settle"], requires_approval=True, description="Settle")
class Settle(Pay):
    idempotent = True
"""


EXIT_CODES = {"COMPLETED": 0, "ERROR": 1, "CANCELLED": 130}
"""The exit code of a chat from a pipe, by the last status that it prints; 3 for any other."""


class Desk:
    """A folder with agents in it, and a person who types."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "agents.py").write_text(AGENT, encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        own = {"ASTERISM_DATABASE": "flows.db", "ASTERISM_FLOWS_DIR": "desk", "ASTERISM_DIGITS_DIR": "digits"}
        return {**os.environ, **{name: str(self.folder / folder) for name, folder in own.items()}}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "asterism.cli", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def chat(self, *lines: str, source: str = "agents.py", options: tuple[str, ...] = (), with_states: bool = False) -> list[str]:
        said = "".join(f"{line}\n" for line in lines)
        arguments = ["chat", source, "--user", "ann", *options]
        done = command.run(arguments, cwd=self.folder, env=self.environment, said=said, timeout=100)
        states = [line.strip(" []") for line in done.stdout.splitlines() if line.startswith("  [")]
        assert (done.returncode, done.stderr) == (EXIT_CODES.get(states[-1], 3) if states else 0, "")
        return [line for line in done.stdout.splitlines()[1:] if with_states or not line.startswith("  [")]

    def do(self, *arguments: str, code: int = 0, cwd: Path | None = None) -> str:
        done = command.run(arguments, cwd=cwd or self.folder, env=self.environment, timeout=100)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def killed_in_the_body(self, *lines: str) -> None:
        process = self.start("chat", "agents.py", "--user", "ann")
        assert process.stdin is not None
        process.stdin.write("".join(f"{line}\n" for line in lines))
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not self.entered():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def entered(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_conversation_goes_on_in_another_process_where_it_was(desk: Desk) -> None:
    assert desk.chat("pay", "500") == ["How much?", "Amount: it must be between 1 and 100, not 500. How much?"]
    (desk.folder / "quick").touch()
    assert desk.chat("40", "maybe", "make it 41", "yes") == [
        "Amount: it must be between 1 and 100, not 500. How much?",
        "Pay (amount: 40). Go ahead? (yes/no)",
        "Please answer yes or no, or write what to change (amount). Pay (amount: 40). Go ahead? (yes/no)",
        "Pay (amount: 41). Go ahead? (yes/no)",
        "Paid 41.",
    ]


DATED = """
import datetime as dt
from asterism.conversation.python import InputField, StandardAgent, flowagent


@flowagent(triggers=["book", "buche"], requires_approval=True, description="Book")
class Book(StandardAgent):
    day: dt.date = InputField("When?")
"""


def test_the_language_and_time_zone_given_to_chat_hold_for_the_conversation_in_later_processes(desk: Desk) -> None:
    (desk.folder / "dated.py").write_text(DATED, encoding="utf-8")
    there = ("--language", "de", "--time-zone", "Pacific/Kiritimati")
    before = dt.datetime.now(tz=zoneinfo.ZoneInfo("Pacific/Kiritimati")).date()
    assert desk.chat("buche", "xyz", source="dated.py", options=there)[1].startswith("Day: ich finde")
    shown = desk.chat("heute", source="dated.py")[-1]
    after = dt.datetime.now(tz=zoneinfo.ZoneInfo("Pacific/Kiritimati")).date()
    assert shown in {f"Book (day: {day}). Einverstanden? (ja/nein)" for day in (before, after)}
    assert desk.chat("nein, falscher Tag", source="dated.py")[-1] == "Was ist richtig für day? When?"
    assert desk.chat("morgen", "nein danke", source="dated.py")[-1] == "Gut, es wird nicht gemacht."


def test_an_unknown_language_or_time_zone_is_refused_before_anything_is_said(desk: Desk) -> None:
    assert "no language 'xx'" in desk.do("chat", "agents.py", "--language", "xx", code=2)
    assert "no time zone 'Mars'" in desk.do("chat", "agents.py", "--time-zone", "Mars", code=2)


def test_flow_run_invents_nothing_and_approves_nothing(desk: Desk) -> None:
    said: dict[str, Any] = json.loads(desk.do("flow", "run", "agents.py:Pay", "--json", code=3))
    assert (said["status"], said["missing_fields"]) == ("WAITING_FOR_INPUT", ["amount"])
    said = json.loads(desk.do("flow", "run", "agents.py:Pay", "--field", "amount=40", "--json", code=3))
    assert (said["status"], said["fields"]) == ("WAITING_FOR_APPROVAL", {"amount": 40})
    assert desk.entered() == []
    for wrong in (
        ("agents.py:Pay", "--field", "sum=40"),
        ("agents.py:Pay", "--field", "amount=1", "--field", "amount=2"),
        ("agents.py",),
        ("nowhere.py",),
        ("agents.py:Nobody",),
    ):
        assert desk.do("flow", "run", *wrong, code=2).count("\n") == 1


LOOP = """
from asterism.loop.python import Handoff, OrchestrationLoop, Worker

async def dig(handoff: Handoff):
    return "gold"

steps = [{"step_id": "dig", "worker": "dig", "intent": "dig"}]
digging = OrchestrationLoop(plan=steps, workers={"dig": Worker(dig, requires_approval=True)})
"""
DIGGER = """
from asterism.conversation.python import AgentStatus, StandardAgent
from digging_of_test import digging

class Digger(StandardAgent):
    resumable = True

    async def on_running(self, msg):
        found = await self.child("dig", digging.start("dig"))
        return self.make_result(AgentStatus.COMPLETED, f"There is {found['answer']}.")
"""


def test_a_loop_below_a_conversation_is_found_from_any_folder(desk: Desk, tmp_path: Path) -> None:
    for name, code in {"mine/digging_of_test.py": LOOP, "mine/digger.py": DIGGER, "elsewhere/notes.txt": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code, encoding="utf-8")
    run = json.loads(desk.do("flow", "run", "mine/digger.py:Digger", "--json", code=3))["run"]
    assert "There is gold." in desk.do("answer", run, "approve", cwd=tmp_path / "elsewhere")


@pytest.mark.slow
def test_killed_in_its_body_it_is_reported_and_not_repeated(desk: Desk) -> None:
    desk.killed_in_the_body("pay", "40", "yes")
    (desk.folder / "quick").touch()
    assert desk.chat()[-1].endswith("Run it again? (yes/no)"), "whoever opens the chat again is shown what is asked"
    said = desk.chat("hm")
    assert said[-1].startswith("It was interrupted while it was under way, and may have finished.")
    assert len(desk.entered()) == 1
    assert desk.chat("no")[-1] == "It was not run again. Whether it finished the first time is not known."
    assert len(desk.entered()) == 1


@pytest.mark.slow
def test_killed_in_its_body_an_idempotent_one_is_repeated_under_the_same_key(desk: Desk) -> None:
    desk.killed_in_the_body("settle", "40", "yes")
    (desk.folder / "quick").touch()
    assert desk.chat() == ["Paid 40."], "whoever opens the chat again takes it up"
    assert len(desk.entered()) == 2
    assert len(set(desk.entered())) == 1


@pytest.mark.slow
def test_the_deploy_example_runs_its_constellation_below_the_conversation(desk: Desk) -> None:
    fleet = str(ROOT / "examples" / "digits" / "fleet.toml")
    said = desk.chat("deploy above 95 %", "yes", source=FLOWS, options=("--fleet", fleet))
    assert said[0] == "Train on the GPU server, and deploy to production above 95 %? (yes/no)"
    assert said[1].startswith("It is live: the measured accuracy is 9")


def test_the_readmes_own_agent_talks_as_is_shown(tmp_path: Path) -> None:
    section = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8").split("## Conversations\n", 1)[1]
    code, shown = section.split("```python\n", 1)[1].split("```", 1)
    desk = Desk(tmp_path)
    (tmp_path / "orders.py").write_text(code, encoding="utf-8")
    lines = [line[4:] for line in shown.split("    $ asterism chat orders.py\n", 1)[1].split("\n\n", 1)[0].splitlines()]
    replies = desk.chat(*[line[2:] for line in lines if line.startswith("> ")], "/help", source="orders.py", with_states=True)
    assert replies == [line for line in lines[1:] if not line.startswith("> ")] + HELP.splitlines()
    assert {line.split()[0] for line in HELP.splitlines()[:-1]} == {"/pause", "/resume", "/cancel", "/fields", "/history", "/quit"}


def test_the_commands_for_runs_know_conversations(desk: Desk) -> None:
    run = json.loads(desk.do("flow", "run", "agents.py:Pay", "--json", code=3))["run"]
    assert "waits for a person: How much?" in desk.do("show", run)
    assert f"asterism answer {run}:5.0 respond --value '…'" in desk.do("inbox")
    assert "(session" not in desk.do("runs")
    assert "INITIALIZING → WAITING_FOR_INPUT" in desk.do("log", run)
    assert json.loads(desk.do("show", run, "--json"))["history"][-1] == {"by": "agent", "text": "How much?"}
    assert "WAITING_FOR_APPROVAL" in desk.do("answer", run, "respond", "--value", '"40"', code=3)
    assert "for a person" in desk.do("resume", run, code=3)
    fork = desk.do("fork", run, "--at", "4", code=3).split()[1]
    assert "amount  40 here, 40 there" not in desk.do("show", fork)
    (desk.folder / "quick").touch()
    assert "Paid 40." in desk.do("answer", run, "yes")
    assert "on_running started" in desk.do("log", run)
    assert "never had a field or child 'x'" in desk.do("why", run, "x", code=2)
    assert "machine 'flow agent'; this works only for constellations" in desk.do("follow", run, "more", code=2)


def test_a_conversation_waits_while_its_class_is_broken_renamed_or_changed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "quick").touch()
    run = desk.do("flow", "run", "agents.py:Pay", "--field", "amount=40", code=3).split()[1]
    agents = tmp_path / "agents.py"
    agents.write_text(AGENT + "def (:", encoding="utf-8")
    said = desk.do("answer", run, "approve", "--all", code=1)
    assert "approve, recorded; it takes effect when the run continues\n" in said
    assert f"\nasterism: run {run} waits: the agent {agents}:Pay cannot be found (" in said
    agents.write_text(AGENT.replace("class Pay(", "class Paid(").replace("(Pay)", "(Paid)"), encoding="utf-8")
    assert f"run {run} waits: the agent {agents}:Pay cannot be found" in desk.do("resume", run, code=2)
    agents.write_text(AGENT.replace("amount: int", "sum: int"), encoding="utf-8")
    assert "has changed since the conversation started: it has no field amount any more" in desk.do("resume", run, code=2)
    agents.write_text(AGENT, encoding="utf-8")
    assert "Paid 40." in desk.do("resume", run)


def test_chat_names_the_conversations_whose_class_is_gone(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.chat("pay")
    agents = tmp_path / "agents.py"
    agents.write_text(AGENT.replace("class Pay(", "class Paid(").replace("(Pay)", "(Paid)"), encoding="utf-8")
    assert f"waits: the agent {agents}:Pay cannot be found; restore it, or cancel the run: asterism cancel " in desk.chat()[0]
    agents.write_text(AGENT, encoding="utf-8")
    assert desk.chat() == ["How much?"]
