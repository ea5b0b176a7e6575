"""A run whose MCP server makes a task of the call: its owner is killed, and the next one follows the same task."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.desk import Desk
from tests.support.mcp_devices import TASKS, calls, served
from tests.support.mcp_task_server import tasks


@pytest.fixture
def folder(desk: Desk) -> Iterator[Path]:
    """Run a server beside the desk, and write its fleet and a plan."""
    with served(desk.folder, script=TASKS) as (url, _):
        desk.fleet.write_text(f'[[devices]]\nid = "jobs"\nkind = "mcp"\nurl = "{url}"\n', encoding="utf-8")
        desk.plan({"task_id": "job", "device": "jobs", "skill": "held"})
        yield desk.folder


def wait_until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def attached(desk: Desk) -> str:
    """Start a run and kill its owner once the journal has the handle; return the id of the run."""
    owner = desk.start("run", "--fleet", desk.fleet, desk.folder / "plan.json")
    wait_until(lambda: calls(desk.folder))
    (run,) = desk.runs()
    wait_until(lambda: "attempt_attached" in desk.do("export", run["run"]).stdout)
    owner.kill()
    owner.communicate()
    return str(run["run"])


def test_a_task_is_followed_by_the_next_owner_of_the_run(desk: Desk, folder: Path) -> None:
    run = attached(desk)
    (folder / "release").touch()
    desk.do("resume", run)
    shown = json.loads(desk.do("show", "--json", run).stdout)
    assert shown["tasks"]["job"]["result"] == {"text": "done"}
    assert len(calls(folder)) == 1


def test_a_cancel_by_the_next_owner_ends_the_task(desk: Desk, folder: Path) -> None:
    run = attached(desk)
    assert "may still run" not in desk.do("cancel", run, code=None).stdout
    assert json.loads(desk.do("show", "--json", run).stdout)["outcome"] == "cancelled"
    assert [task["is_cancelled"] for task in tasks(folder)] == [True]
