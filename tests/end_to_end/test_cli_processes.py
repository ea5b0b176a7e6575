"""Environment variables and working folders, in files and at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.desk import Desk

SKILLS = """
import os
from asterism import skill

@skill
def say(file: str) -> dict[str, str]:
    text = open(file).read()
    return {"folder": os.getcwd(), "mode": os.environ.get("MODE", ""), "shade": os.environ.get("SHADE", ""), "text": text}
"""
FLEET = """
[[devices]]
id = "plain"
skills = ["say.py:say"]
[[devices]]
id = "set"
skills = ["say.py:say"]
folder = "../data"
env = {MODE = "device", SHADE = "device"}
"""


@pytest.fixture
def folder(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the run is submitted; the plan and the fleet file are in others."""
    for name in ("here", "data", "data/part", "jobs", "plans"):
        (desk.folder / name).mkdir()
        (desk.folder / name / "who.txt").write_text(name, encoding="utf-8")
    (desk.folder / "jobs" / "say.py").write_text(SKILLS, encoding="utf-8")
    (desk.folder / "jobs" / "fleet.toml").write_text(FLEET, encoding="utf-8")
    monkeypatch.chdir(desk.folder / "here")
    monkeypatch.setenv("MODE", "process")
    return desk.folder


def task(task_id: str, device: str, **more: object) -> dict[str, object]:
    return {"task_id": task_id, "device": device, "skill": "say", "inputs": {"file": "who.txt"}} | more


def test_where_and_with_what_skills_run(desk: Desk, folder: Path) -> None:
    tasks = [
        task("a", "plain"),
        task("b", "plain", folder="../data", env={"MODE": "task"}),
        task("c", "set"),
        task("d", "set", folder="part", env={"SHADE": "task", "MORE": "x y"}),
    ]
    plan = desk.plan(*tasks, name="plans/plan.json")
    done = desk.do("run", plan, "--fleet", "../jobs/fleet.toml", "--json")
    ended = json.loads(done.stdout.splitlines()[-1])
    assert {name: (it["result"]["folder"], it["result"]["mode"], it["result"]["shade"]) for name, it in ended["tasks"].items()} == {
        "a": (f"{folder}/here", "process", ""),
        "b": (f"{folder}/data", "task", ""),
        "c": (f"{folder}/data", "device", "device"),
        "d": (f"{folder}/data/part", "device", "task"),
    }
    assert [it["result"]["text"] for it in ended["tasks"].values()] == ["here", "data", "data", "data/part"]
    run = desk.runs()[0]["run"]
    shown = desk.do("show", run).stdout
    assert "      folder part\n      env SHADE=task MORE=x y\n" in shown
    assert 'env={"SHADE": "task", "MORE": "x y"} folder=part' in desk.do("why", run, "d").stdout
    assert "folder ../data  env MODE=task" in desk.do("plan", plan, "--fleet", "../jobs/fleet.toml").stdout
    written = json.loads(desk.do("show", run, "--plan").stdout)["tasks"]
    assert [(it.get("env"), it.get("folder")) for it in written] == [(it.get("env"), it.get("folder")) for it in tasks]


def test_items_run_with_the_variables_and_in_the_folder_of_their_task(desk: Desk, folder: Path) -> None:
    each = task("e", "set", folder="part", env={"SHADE": "task"}, inputs={"file": "${item}"}, for_each=["who.txt", "../who.txt"])
    done = desk.do("run", desk.plan(each), "--fleet", "../jobs/fleet.toml", "--json")
    results = json.loads(done.stdout.splitlines()[-1])["tasks"]["e"]["result"]
    assert [(it["text"], it["shade"], it["folder"]) for it in results] == [
        ("data/part", "task", f"{folder}/data/part"),
        ("data", "task", f"{folder}/data/part"),
    ]


def test_an_approval_covers_variables_and_folder(desk: Desk, folder: Path) -> None:
    plan = desk.plan(task("d", "set", folder="part", env={"SHADE": "task"}, requires_approval=True))
    desk.do("run", plan, "--fleet", "../jobs/fleet.toml", code=3)
    shown = desk.do("inbox").stdout
    assert 'env        {"SHADE": "task"}\n    folder     part\n' in shown
    done = desk.do("answer", desk.runs()[0]["run"], "--all", "approve")
    assert "mode=device shade=task text=data/part" in done.stdout


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"env": {"A=B": "x"}}, "plan.tasks[0].env: 'A=B' cannot be the name of a variable; use letters, digits and _"),
        ({"env": {"A": "${params.x}"}}, "plan.tasks[0].env.A: a reference ${…} can only stand in inputs; pass the value as an input"),
        ({"folder": 3}, "plan.tasks[0].folder: Expected `str`, got `int`"),
    ],
)
def test_what_no_process_can_have_is_refused_in_one_line(desk: Desk, folder: Path, more: dict[str, object], told: str) -> None:
    refused = desk.do("run", desk.plan(task("a", "plain", **more)), "--fleet", "../jobs/fleet.toml", code=2)
    assert told in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not desk.database.exists()
