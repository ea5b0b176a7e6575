"""A conversation whose constellation waits for a person: whoever goes on with it needs no --fleet, for the constellation names its own."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.desk import Desk

AGENTS = """
from asterism.flows import AgentStatus, InputField, StandardAgent, constellation, flowagent


@flowagent(description="Ship it")
class Ship(StandardAgent):
    resumable = True
    where = InputField("Where to?")

    async def on_running(self, msg):
        task = {"task_id": "out", "device": "server", "skill": "deploy", "inputs": {"where": self.where}, "requires_approval": True}
        done = await self.child("ship", constellation({"tasks": [task]}, self.fleet, request="ship it"))
        return self.make_result(AgentStatus.COMPLETED, f"Deployed {done['results']['out']['deployed']}.")
"""


@pytest.fixture
def waiting(desk: Desk) -> tuple[Desk, str]:
    """A desk, and a conversation that waits there for what its constellation asks."""
    (desk.folder / "agents.py").write_text(AGENTS, encoding="utf-8")
    argv = ("flow", "run", "agents.py:Ship", "--field", "where=there", "--fleet", desk.fleet.name, "--json")
    return desk, json.loads(desk.do(*argv, code=3, cwd=desk.folder).stdout)["run"]


def test_answer_and_resume_find_the_fleet_by_themselves(waiting: tuple[Desk, str]) -> None:
    desk, run = waiting
    assert "waits for a person" in desk.do("resume", run, code=3, cwd=desk.folder).stdout
    assert "Deployed there." in desk.do("answer", run, "approve", cwd=desk.folder).stdout
    assert desk.performed() == ["out"]
    assert {row["outcome"] for row in desk.runs()} == {"finished"}


def test_a_chat_finds_the_fleet_of_what_was_left_open(desk: Desk) -> None:
    (desk.folder / "agents.py").write_text(AGENTS.replace("@flowagent(", '@flowagent(triggers=["ship"], '), encoding="utf-8")
    chat = ("chat", "agents.py", "--user", "ann")
    said = desk.do(*chat, "--fleet", desk.fleet.name, cwd=desk.folder, said="ship\nthere\n").stdout
    assert "Where to?" in said
    assert "Run out on server? (where: there)" in said
    assert desk.performed() == []
    assert "Deployed there." in desk.do(*chat, cwd=desk.folder, said="yes\n").stdout
    assert desk.performed() == ["out"]


def test_a_fleet_file_that_is_gone_is_one_line_and_another_may_be_named(waiting: tuple[Desk, str]) -> None:
    desk, run = waiting
    other = desk.fleet.rename(desk.folder / "other.toml")
    refused = desk.do("resume", run, code=2, cwd=desk.folder)
    assert "fleet.toml: the fleet file cannot be read" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert "Deployed there." in desk.do("answer", run, "approve", "--fleet", other, cwd=desk.folder).stdout


def test_a_conversation_begun_with_a_fleet_keeps_it_for_what_it_starts_later_wherever_it_is_answered(desk: Desk) -> None:
    (desk.folder / "agents.py").write_text(AGENTS.replace("@flowagent(", "@flowagent(requires_approval=True, "), encoding="utf-8")
    begin = ("flow", "run", "agents.py:Ship", "--field", "where=there", "--fleet", desk.fleet.name, "--json")
    run = json.loads(desk.do(*begin, code=3, cwd=desk.folder).stdout)["run"]
    assert "skill=deploy" in desk.do("answer", run, "approve", code=3, cwd=desk.folder.parent).stdout
    assert "Deployed there." in desk.do("answer", run, "approve", cwd=desk.folder.parent).stdout
