"""Conversations on the command line with a model by a script, over real HTTP; and with one that cannot be had."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from asterism.testing.scripted_model import Fault, ModelAnswer, ScriptedModel
from tests.end_to_end.desk import Desk
from tests.end_to_end.test_cli_model import WITHOUT_THE_EXTRA

AGENTS = """
from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent, flowagent


@flowagent(triggers=["book"], requires_approval=True, description="Book a table")
class Booking(StandardAgent):
    guests: int = InputField("How many guests?", ge=1, le=20)
    name: str = InputField("Under which name?")
    card: str = InputField("Which card?", secret=True, default="none")


@flowagent(triggers=["weather"], description="Tell the weather")
class Weather(StandardAgent):
    town: str = InputField("In which town?")

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, f"Rain in {self.town}.")
"""


@pytest.fixture
def flows(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in [name for name in os.environ if name.startswith("ASTERISM_") or name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    (desk.folder / "agents.py").write_text(AGENTS, encoding="utf-8")
    return desk


def asked(desk: Desk, argv: list[str], script: list[ModelAnswer], *, typed: str = "", **settings: str) -> tuple[str, str, ScriptedModel]:
    """What a command printed and complained of, and the model that it asked."""

    async def scene() -> tuple[str, str, ScriptedModel]:
        async with ScriptedModel(script) as model:
            there = {**desk.environment(), "OPENAI_API_KEY": "sk-of-a-test", "ASTERISM_MODEL_BASE_URL": model.openai_url, **settings}
            process = await asyncio.create_subprocess_exec(
                *desk.argv(*argv), cwd=desk.folder, env=there, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            async with asyncio.timeout(60):
                out, err = await process.communicate(typed.encode())
            return out.decode(), err.decode(), model

    return asyncio.run(scene())


def replies(out: str) -> list[str]:
    return [line for line in out.splitlines()[1:] if not line.startswith("  [")]


def test_a_model_chooses_the_agent_and_finds_its_fields_and_a_recording_does_it_again(flows: Desk) -> None:
    chat, typed = ["chat", "agents.py", "--user", "ann"], "a place for dinner, ninety-nine of us, Smith\nyes\nfour\nyes\n"
    out, err, model = asked(
        flows,
        [*chat, "--model", "openai:gpt-4o", "--record", "said.jsonl"],
        [{"agent": "Booking"}, {"guests": 99, "name": "Smith", "card": "4711"}, {"guests": 4}],
        typed=typed,
    )
    assert err == ""
    assert replies(out) == [
        "Guests: it must be between 1 and 20, not 99. Shall I take this as the name: 'Smith'? (yes/no)",
        "How many guests?",
        "Book a table (guests: 4, name: Smith). Go ahead? (yes/no)",
        "Done.",
    ]
    assert [request.model for request in model.requests] == ["gpt-4o"] * 3, "the model is not asked whether a yes is one"
    Path(flows.database).unlink()
    again = flows.do(*chat, "--model", "replay:said.jsonl", cwd=flows.folder, said=typed)
    assert (again.stdout, again.stderr) == (out, "")


def test_flow_run_takes_the_model_of_the_settings_and_its_backup_and_approves_nothing(flows: Desk) -> None:
    out, err, model = asked(
        flows,
        ["flow", "run", "agents.py:Booking", "--text", "four, Smith", "--json"],
        [Fault(status=401), {"guests": 4, "name": "Smith"}],
        ASTERISM_MODEL="openai:first",
        ASTERISM_BACKUP_MODEL="openai:second",
    )
    assert err == ""
    said = json.loads(out)
    assert (said["status"], said["fields"]) == ("WAITING_FOR_INPUT", {"guests": 4})
    assert said["raw_message"] == "Shall I take this as the name: 'Smith'? (yes/no)", "what only the model has found is read back"
    assert [request.model for request in model.requests] == ["first", "second"]


def test_a_conversation_goes_on_without_a_model_that_gives_no_answer_and_no_key_is_told(flows: Desk) -> None:
    out, err, _ = asked(
        flows,
        ["flow", "run", "agents.py:Weather", "--text", "weather", "--json", "--model", "openai:gpt-4o"],
        [Fault(status=401, message="wrong key sk-of-a-test")],
    )
    assert json.loads(out)["raw_message"] == "In which town?"
    assert "sk-of-a-test" not in out + err
    assert "Traceback" not in err


def test_an_answer_is_heard_with_the_model_of_the_settings(flows: Desk) -> None:
    flows.do("flow", "run", "agents.py:Booking", code=3, cwd=flows.folder)
    out, err, model = asked(
        flows,
        ["answer", flows.runs()[0]["run"], "respond", "--value", '"four, Smith"'],
        [{"guests": 4, "name": "Smith"}],
        ASTERISM_MODEL="openai:gpt-4o",
    )
    assert err == ""
    assert "Shall I take this as the name: 'Smith'? (yes/no)" in out
    assert len(model.requests) == 1


@pytest.mark.parametrize("command", [["chat", "agents.py"], ["flow", "run", "agents.py:Weather"]])
def test_a_model_that_cannot_be_had_is_one_line_and_writes_nothing(flows: Desk, command: list[str]) -> None:
    done = flows.do(*command, "--model", "openai:gpt-4o", code=2, cwd=flows.folder)
    assert done.stderr == "asterism: model openai:gpt-4o needs a key: set OPENAI_API_KEY in the environment\n"
    argv = [sys.executable, "-c", WITHOUT_THE_EXTRA, *command, "--model", "openai:gpt-4o"]
    done = subprocess.run(argv, cwd=flows.folder, env=flows.environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "asterism: model openai:gpt-4o needs an extra: pip install 'asterism-engine[llm]'\n")
    assert not Path(flows.database).exists()
