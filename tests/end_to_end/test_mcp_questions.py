"""A question of an MCP server whose answer comes when both processes have ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.desk import Desk
from tests.support.mcp_devices import SCRIPTED, calls

pytestmark = pytest.mark.slow


def fleet(desk: Desk) -> Path:
    """Write a fleet with the scripted server, and a server that cannot be started: no run uses it."""
    tools = f'command = ["{sys.executable}", "{SCRIPTED}", "{desk.folder}"]'
    tables = (("tools", tools), ("dead", 'command = ["no-such-program-here"]'))
    desk.fleet.write_text("".join(f'[[devices]]\nid = "{name}"\nkind = "mcp"\n{server}\n' for name, server in tables), encoding="utf-8")
    return desk.fleet


def asked(desk: Desk) -> dict[str, Any]:
    (found,) = json.loads(desk.do("inbox", "--json").stdout)
    assert isinstance(found, dict)
    return found


def ended(desk: Desk) -> dict[str, Any]:
    (run,) = desk.runs()
    shown: dict[str, Any] = json.loads(desk.do("show", "--json", run["run"]).stdout)
    return shown


def test_the_answer_reaches_another_server_of_the_same_program(desk: Desk) -> None:
    plan = desk.plan({"task_id": "ask", "device": "tools", "skill": "ask", "inputs": {"topic": "it"}})
    desk.do("run", "--fleet", fleet(desk), plan, code=None)
    assert asked(desk)["prompt"] == "Who approves it?"
    assert calls(desk.folder) == []
    desk.do("answer", asked(desk)["inquiry"], "respond", "--value", '{"name": "Ada"}')
    assert ended(desk)["tasks"]["ask"]["result"] == {"result": "it: Ada"}
    (call,) = calls(desk.folder)
    assert call.startswith("ask ")


def test_a_rejected_question_is_declined(desk: Desk) -> None:
    plan = desk.plan({"task_id": "ask", "device": "tools", "skill": "ask", "inputs": {"topic": "it"}})
    desk.do("run", "--fleet", fleet(desk), plan, code=None)
    desk.do("answer", asked(desk)["inquiry"], "reject")
    assert ended(desk)["tasks"]["ask"]["result"] == {"result": "it: declined"}


def test_a_run_that_is_cancelled_while_a_server_asks_ends_at_once(desk: Desk) -> None:
    plan = desk.plan({"task_id": "ask", "device": "tools", "skill": "ask", "inputs": {"topic": "it"}})
    desk.do("run", "--fleet", fleet(desk), plan, code=None)
    (run,) = desk.runs()
    desk.do("cancel", run["run"], code=None)
    assert ended(desk)["outcome"] == "cancelled"
    assert calls(desk.folder) == []
