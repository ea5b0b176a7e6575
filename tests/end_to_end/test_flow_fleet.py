"""A conversation whose constellation waits for a person: whoever goes on with it needs no --fleet, for the constellation names its own."""

from __future__ import annotations

import json
import re

import pytest

from tests.end_to_end.desk import Desk

AGENTS = """
from asterism.conversation.python import AgentStatus, InputField, StandardAgent, constellation, flowagent


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
    said = desk.do(*chat, "--fleet", desk.fleet.name, code=3, cwd=desk.folder, said="ship\nthere\n").stdout
    assert "Where to?" in said
    assert "Run out on server? (where: there) (yes/no)" in said
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


def test_a_plan_with_a_missing_secret_is_refused_before_the_first_question(desk: Desk) -> None:
    (desk.folder / "pages.py").write_text("def pay(token): return 1\n", encoding="utf-8")
    plan = {"tasks": [{"task_id": "pay", "device": "here", "skill": "pages.py:pay", "inputs": {"token": "${secret.BANK_TOKEN}"}}]}
    (desk.folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    agent = """
from asterism.conversation.python import InputField, StandardAgent, flowagent

@flowagent(description="Pay", triggers=["pay"], requires_approval=True, plan="plan.json")
class Pay(StandardAgent):
    pass
"""
    (desk.folder / "agents.py").write_text(agent, encoding="utf-8")
    for argv in (("chat", "agents.py"), ("flow", "run", "agents.py:Pay")):
        refused = desk.do(*argv, code=2, cwd=desk.folder, said="pay\nyes\n")
        assert "the plan of Pay cannot be run: secret BANK_TOKEN is not set; set ASTERISM_SECRET_BANK_TOKEN" in refused.stderr
        assert refused.stdout == ""
    assert desk.runs() == []


PAY = """
from asterism.conversation.python import StandardAgent, flowagent

@flowagent(description="Pay", triggers=["pay"], plan="plan.json")
class Pay(StandardAgent):
    pass
"""


def test_a_retry_of_a_conversation_names_the_run_of_its_plan(desk: Desk) -> None:
    (desk.folder / "pages.py").write_text("def pay(): return 1 / 0\n", encoding="utf-8")
    task = {"task_id": "pay", "device": "here", "skill": "pages.py:pay"}
    (desk.folder / "plan.json").write_text(json.dumps({"tasks": [task]}), encoding="utf-8")
    (desk.folder / "agents.py").write_text(PAY, encoding="utf-8")
    run = json.loads(desk.do("flow", "run", "agents.py:Pay", "--json", code=None, cwd=desk.folder).stdout)["run"]
    refused = desk.do("retry", run, code=2, cwd=desk.folder).stderr
    found = re.fullmatch(rf".*run {run} has no tasks to retry; its child run has: asterism retry ({run}\S+)\n", refused)
    assert found
    assert f"\nrun what failed again: asterism retry {found[1]}\n" in desk.do("show", run).stdout
    (desk.folder / "pages.py").write_text("def pay(): return 1\n", encoding="utf-8")
    assert "FINISH: finished" in desk.do("retry", found[1], cwd=desk.folder).stdout
