"""Mistakes of a plan are reported before a server is started; what only the devices know is not judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asterism.cli import main
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.python.early_check import check_before_opening, needed_devices
from asterism.constellation.python.goal import Goal
from asterism.errors import InvalidInput

FLEET = """
[[devices]]
id = "web"
kind = "mcp"
command = ["sh", "-c", "touch started; exit 1"]

[[devices]]
id = "desk"
skills = []
"""
FETCH = {"task_id": "fetch", "device": "web", "skill": "fetch", "inputs": {"url": "x", "odd": 1}}
SUM = {"task_id": "sum", "device": "desk", "name": "sum up", "when": "pages > 1", "inputs": {"of": "${fetch.pages}"}}
LINE = {"from": "fetch", "to": "sum", "condition": "code == 200"}
GOOD: dict[str, Any] = {"tasks": [FETCH, SUM], "dependencies": [LINE]}


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")
    return tmp_path / "fleet.toml"


@pytest.mark.parametrize(
    "plan",
    [
        GOOD,
        {"tasks": [{"task_id": "outer", "constellation": GOOD}]},
        {"tasks": [{"task_id": "a", "device": "here", "skill": "nothing.py:f"}]},
    ],
)
def test_what_only_the_devices_know_is_left_to_them(plan: dict[str, Any], fleet: Path) -> None:
    check_before_opening(Goal("x", "x", parse_plan(plan)), fleet)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            {"tasks": [{**FETCH, "device": "wob"}]},
            "the plan cannot be run on this fleet: fetch: unknown device 'wob'; the fleet has web, desk",
        ),
        (
            {"tasks": [FETCH, SUM], "dependencies": [{**LINE, "from": "fetsh"}]},
            "the plan cannot be run on this fleet: dependency fetsh->sum: from: there is no task 'fetsh'; did you mean fetch?",
        ),
        (
            {"tasks": [{**FETCH, "inputs": {"url": "${params.sit}"}}], "params": {"site": "str"}},
            "the plan cannot be run on this fleet: fetch: it refers to ${params.sit}; did you mean site?",
        ),
    ],
)
def test_a_mistake_is_reported_before_a_device_is_opened(
    plan: dict[str, Any], said: str, fleet: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_before_opening(Goal("x", "x", parse_plan(plan)), fleet)
    assert str(refused.value) == said
    monkeypatch.chdir(fleet.parent)
    (fleet.parent / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    for command in ("plan", "run"):
        values = ["--set", "site=x"] if command == "run" and "params" in plan else []
        assert main([command, "plan.json", "--fleet", "fleet.toml", *values]) == 2
    assert capsys.readouterr().err == f"asterism: {said}\n" * 2
    assert not (fleet.parent / "started").exists()


def test_a_fleet_that_opens_at_once_is_not_checked_twice(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text('[[devices]]\nid = "desk"\n', encoding="utf-8")
    check_before_opening(Goal("x", "x", parse_plan({"tasks": [{**FETCH, "device": "wob"}]})), tmp_path / "fleet.toml")


@pytest.mark.parametrize(
    ("tasks", "needed"),
    [
        ([SUM], {"desk"}),
        ([{"task_id": "outer", "constellation": GOOD}, {"task_id": "own", "device": "here", "skill": "a.py:f"}], {"web", "desk"}),
        ([SUM, {"task_id": "any", "name": "any"}], None),
        ([SUM, {"task_id": "all", "device": "team"}], None),
    ],
)
def test_a_plan_needs_the_devices_that_it_names_unless_it_may_use_any(
    tasks: list[dict[str, Any]], needed: set[str] | None, fleet: Path
) -> None:
    fleet.write_text(FLEET + '[[devices]]\nid = "team"\nkind = "agent"\nloop = "a.toml"\n', encoding="utf-8")
    assert needed_devices(parse_plan({"tasks": tasks}), fleet) == needed
    assert needed_devices(None, fleet) is None
