"""Trees of runs with real processes: killed anywhere, asked at the root, moved as one file; and the example that has one."""

from __future__ import annotations

import asyncio
import collections
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asterism.engine.ports.store import RunRow
from asterism.stores.sqlite import SqliteStore
from tests.end_to_end import command
from tests.end_to_end.desk import Desk
from tests.end_to_end.test_crash import Scene, assert_each_effect_has_one_outcome, assert_gone

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "folder"

INNERMOST: dict[str, Any] = {
    "tasks": [
        {"task_id": "fit", "name": "train_cnn", "device": "gpu_server", "inputs": {"dataset": "${inputs.of}"}},
        {"task_id": "judge", "name": "evaluate", "device": "test_server", "requires_approval": True},
    ],
    "dependencies": [{"from": "fit", "to": "judge"}],
}
MIDDLE = {"tasks": [{"task_id": "inner", "inputs": {"of": "${inputs.dataset}"}, "constellation": INNERMOST}], "dependencies": []}
TREE: dict[str, Any] = {
    "tasks": [
        {"task_id": "get", "name": "download_mnist", "device": "laptop"},
        {"task_id": "learn", "inputs": {"dataset": "${get.dataset}"}, "constellation": MIDDLE},
        {"task_id": "ship", "name": "deploy", "device": "prod_server"},
    ],
    "dependencies": [{"from": "get", "to": "learn"}, {"from": "learn", "to": "ship"}],
}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path, TREE)
    yield scene
    scene.close()


def rows(scene: Scene) -> list[RunRow]:
    async def read() -> list[RunRow]:
        store = SqliteStore.open(scene.database, create=False)
        try:
            return await store.runs(root="r1")
        finally:
            await store.close()

    return asyncio.run(read())


def finish(scene: Scene) -> None:
    """Answer what is asked, and drive on to the end."""
    said = ""
    for _ in range(4):
        said = scene.drive()
        if not said.startswith("waiting"):
            break
        scene.answer("approve")
    assert said == "ended finished"


def assert_done_once(scene: Scene) -> None:
    assert collections.Counter(task for task, _ in scene.performed()) == {"get": 1, "fit": 1, "judge": 1, "ship": 1}
    tree = rows(scene)
    assert [row.outcome for row in tree] == ["finished"] * 3
    for row in tree:
        assert_each_effect_has_one_outcome(scene.records(row.run_id))


def killed_and_resumed(scene: Scene, count: int) -> None:
    assert scene.drive(new=True, die_after=count) == ""
    finish(scene)
    assert_done_once(scene)


@pytest.mark.parametrize("count", [5, 10, 15])
def test_a_tree_killed_after_some_entries_goes_on_from_there(scene: Scene, count: int) -> None:
    killed_and_resumed(scene, count)


@pytest.mark.slow
@pytest.mark.parametrize("count", range(2, 16))
def test_a_tree_killed_after_any_entry_of_any_journal_reaches_the_same_end(scene: Scene, count: int) -> None:
    killed_and_resumed(scene, count)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 9, 11, 13, 15])
def test_a_tree_killed_after_its_answer_reaches_the_same_end(scene: Scene, count: int) -> None:
    assert scene.drive(new=True) == "waiting"
    assert "Run judge (evaluate) on test_server?" in scene.answer("approve")
    said = scene.drive(die_after=count)
    if said != "ended finished":
        finish(scene)
    assert_done_once(scene)


@pytest.mark.slow
def test_a_skill_in_the_innermost_run_dies_with_its_owner_and_is_made_again_under_the_same_key(scene: Scene) -> None:
    owner = scene.owner(new=True, block="train_cnn")
    with scene.fifo.open(encoding="utf-8") as fifo:
        worker = int(fifo.readline())
    owner.send_signal(signal.SIGKILL)
    owner.communicate(timeout=20)
    assert_gone(worker)
    finish(scene)
    keys = [key for task, key in scene.performed() if task == "fit"]
    assert len(keys) == 2
    assert len(set(keys)) == 1


# -- the command line ----------------------------------------------------------------------------------


MEASURE = {"task_id": "measure", "device": "desk", "skill": "measure"}
DEPLOY = {"task_id": "deploy", "device": "server", "skill": "deploy", "inputs": {"where": "${inputs.where}"}, "requires_approval": True}
NESTED: dict[str, Any] = {
    "task_id": "ship",
    "inputs": {"where": "moon"},
    "constellation": {"tasks": [MEASURE, DEPLOY], "dependencies": [{"from": "measure", "to": "deploy"}]},
}


def test_a_question_inside_is_asked_at_the_root_and_answered_there(desk: Desk) -> None:
    said = desk.do("run", desk.plan(NESTED), "--fleet", desk.fleet, code=3).stdout
    assert "(2 nested tasks)" in said
    (run,) = desk.runs()
    every = json.loads(desk.do("runs", "--all", "--json").stdout)
    child = next(row["run"] for row in every if row["parent"] == run["run"])
    assert f"started as run {child}" in said
    inbox = desk.do("inbox").stdout
    assert f"part of    {run['run']}" in inbox
    assert '{"where": "moon"}' in inbox
    shown = desk.do("show", run["run"]).stdout
    assert f"      run {child}  waiting" in shown
    assert "        measure   completed" in shown
    told = desk.do("answer", run["run"], "approve").stdout
    assert "completed: summary=2 tasks: 2 completed" in told
    (run,) = desk.runs()
    assert run["outcome"] == "finished"
    assert desk.performed() == ["measure", "deploy"]
    data = json.loads(desk.do("show", run["run"], "--json").stdout)
    assert data["tasks"]["ship"]["result"]["results"]["deploy"] == {"deployed": "moon"}
    assert [(below["task_id"], below["outcome"]) for below in data["children"]] == [("ship", "finished")]


def test_what_is_said_to_a_child_goes_on_with_its_root(desk: Desk) -> None:
    after = {"task_id": "after", "device": "desk", "skill": "measure"}
    plan = desk.plan(NESTED, after, dependencies=[{"from": "ship", "to": "after", "type": "UNCONDITIONAL"}])
    desk.do("run", plan, "--fleet", desk.fleet, code=3)
    (root,) = desk.runs()
    child = next(row["run"] for row in json.loads(desk.do("runs", "--all", "--json").stdout) if row["parent"])
    resumed = desk.do("resume", child, code=3).stdout
    assert f"this run is part of run {root['run']}, which is resumed" in resumed
    desk.do("cancel", child, code=None)
    assert desk.performed() == ["measure", "after"]
    assert json.loads(desk.do("show", root["run"], "--json").stdout)["tasks"]["ship"]["status"] == "CANCELLED"


def test_a_tree_moves_as_one_file(desk: Desk, tmp_path: Path) -> None:
    desk.do("run", desk.plan(NESTED), "--fleet", desk.fleet, code=3)
    (root,) = desk.runs()
    child = next(row["run"] for row in json.loads(desk.do("runs", "--all", "--json").stdout) if row["parent"])
    assert f"is a child of run {root['run']}" in desk.do("export", child, code=2).stderr
    desk.do("export", root["run"], "-o", tmp_path / "tree.jsonl")
    other = tmp_path / "other.db"
    told = desk.do("import", tmp_path / "tree.jsonl", "--database", other).stdout
    assert "and 1 child run" in told
    assert "nothing was imported" in desk.do("import", tmp_path / "tree.jsonl", "--database", other, code=2).stderr
    desk.do("answer", root["run"], "approve", "--database", other)
    assert desk.performed() == ["measure", "deploy"], "the child is not started a second time"


def test_a_nested_plan_that_cannot_run_is_refused_with_the_way_to_it(desk: Desk) -> None:
    wrong = {**NESTED, "constellation": {"tasks": [{**MEASURE, "inputs": {"x": "${inputs.which}"}}]}}
    said = desk.do("run", desk.plan(wrong), "--fleet", desk.fleet, code=2).stderr
    assert "ship/measure" in said
    assert not desk.database.exists()


def test_the_example_packs_after_a_yes_and_proves_the_archive(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "letter.txt").write_text("dear journal", encoding="utf-8")
    shutil.copytree(FOLDER, tmp_path / "fleet")

    def do(*arguments: str) -> tuple[int, str]:
        environment = {**os.environ, "ASTERISM_DATABASE": str(tmp_path / "runs.db"), "COLUMNS": "200"}
        done = command.run(arguments, cwd=tmp_path, env=environment, timeout=60)
        return done.returncode, done.stdout + done.stderr

    code, said = do("run", "fleet/nested.json", "--fleet", "fleet/fleet.toml")
    assert code == 3, said
    assert not (tmp_path / "examples.tar.gz").exists()
    run = said.split()[1]
    code, said = do("answer", run, "approve")
    assert code == 0, said
    assert (tmp_path / "examples.tar.gz").exists()
    shown = do("show", run)[1]
    assert "completed: valid=true" in shown
    _, _, child = do("why", run, "pack")[1].partition("the tasks of keep are in run ")
    assert do("why", child.strip(), "pack")[1].startswith("pack: COMPLETED")
