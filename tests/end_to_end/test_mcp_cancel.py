"""The cancel of a run whose call of an MCP server is out."""

from __future__ import annotations

import json
import sys

from tests.end_to_end.desk import Desk
from tests.end_to_end.test_logs import until
from tests.support.mcp_devices import SCRIPTED, calls


def test_a_cancelled_call_is_named_as_perhaps_running(desk: Desk) -> None:
    command = json.dumps([sys.executable, str(SCRIPTED), str(desk.folder)])
    desk.fleet.write_text(f'[[devices]]\nid = "tools"\nkind = "mcp"\ncommand = {command}\n', encoding="utf-8")
    running = desk.start("run", desk.plan({"task_id": "w", "device": "tools", "skill": "wait"}), "--fleet", desk.fleet)
    until(lambda: any(call.startswith("wait") for call in calls(desk.folder)))
    desk.do("cancel", desk.runs()[0]["run"])
    out, err = running.communicate(timeout=60)
    named = "w may still run on tools: wait of"
    assert running.returncode == 130, out + err
    assert named in out
    (shown,) = json.loads(desk.do("show", "--json", desk.runs()[0]["run"]).stdout)["result"]["still_running"]
    assert shown.startswith(named)
    assert shown.endswith("MCP servers do not confirm that they cancel a call")
