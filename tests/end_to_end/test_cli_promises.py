"""What a new user took the README's word for, and once was wrong to."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from asterism.cli.exit_codes import INTERRUPTED
from tests.end_to_end.desk import TIMEOUT_S, Desk

SKILLS = """
import os, signal
from typing import TypedDict
from asterism import skill

class Counted(TypedDict):
    n: int

@skill
def letter() -> None:
    "Send a letter."
    open("letters.txt", "a").write("sent\\n")
    os.kill(os.getpid(), signal.SIGKILL)

@skill(idempotent=True)
def dies_once() -> None:
    "Die the first time."
    if not os.path.exists("died.txt"):
        open("died.txt", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)

@skill
def liar() -> Counted:
    "Promise a number."
    return {"m": "x"}

@skill
def takes(n: int, text: str = "") -> None:
    "Take a number."
"""


def own_fleet(desk: Desk) -> Path:
    (desk.folder / "own.py").write_text(SKILLS, encoding="utf-8")
    names = ", ".join(f'"own.py:{name}"' for name in ("letter", "dies_once", "liar", "takes"))
    fleet = desk.folder / "own.toml"
    fleet.write_text(f'[[devices]]\nid = "post"\nskills = [{names}]\n', encoding="utf-8")
    return fleet


def task(skill: str, **more: object) -> dict[str, object]:
    return {"task_id": "a", "device": "post", "skill": skill, **more}


def test_what_may_have_happened_is_not_retried_unless_the_policy_names_it(desk: Desk) -> None:
    fleet, patient = own_fleet(desk), {"max_attempts": 2, "backoff_s": 0}
    said = desk.do("run", desk.plan(task("letter", retry=patient)), "--fleet", fleet, code=1, cwd=desk.folder).stdout
    assert "SIGKILL" in said
    assert (desk.folder / "letters.txt").read_text(encoding="utf-8") == "sent\n"
    desk.do("run", desk.plan(task("dies_once", retry=patient)), "--fleet", fleet, cwd=desk.folder)


def test_a_result_that_is_not_what_the_skill_declares_is_its_failure(desk: Desk) -> None:
    said = desk.do("run", desk.plan(task("liar")), "--fleet", own_fleet(desk), code=1).stdout
    assert "declares that it returns Counted, and did not: Object missing required field `n`" in said


@pytest.mark.parametrize(
    ("inputs", "told"), [({}, "inputs.n: takes needs it"), ({"n": 1, "text": 3}, "inputs.text: takes takes string, not int")]
)
def test_arguments_that_cannot_be_right_are_refused_before_the_run(desk: Desk, inputs: dict[str, object], told: str) -> None:
    assert told in desk.do("run", desk.plan(task("takes", inputs=inputs)), "--fleet", own_fleet(desk), code=2).stderr
    assert not desk.database.exists()


def test_relative_paths_stay_those_of_where_the_run_was_started(desk: Desk) -> None:
    started, elsewhere = desk.folder / "started", desk.folder / "elsewhere"
    started.mkdir()
    elsewhere.mkdir()
    plan = desk.plan(task("dies_once", retry={"max_attempts": 2, "backoff_s": 0}, requires_approval=True))
    desk.do("run", plan, "--fleet", own_fleet(desk), code=3, cwd=started)
    desk.do("answer", desk.runs()[0]["run"], "approve", cwd=elsewhere)
    assert [path.name for path in started.iterdir()] == ["died.txt"]
    assert list(elsewhere.iterdir()) == []


def test_an_answer_does_not_unpause(desk: Desk) -> None:
    desk.do(
        "run", desk.plan({"task_id": "a", "device": "desk", "skill": "measure", "requires_approval": True}), "--fleet", desk.fleet, code=3
    )
    run = desk.runs()[0]["run"]
    assert "it stays paused when its questions are answered" in desk.do("pause", run).stdout
    desk.do("answer", run, "approve", code=130)
    assert desk.runs()[0]["status"] == "paused"
    assert desk.performed() == []
    desk.do("resume", run)
    assert desk.performed() == ["a"]


def test_a_fleet_that_cannot_carry_a_run_on_is_refused_and_the_run_goes_on_with_another(desk: Desk) -> None:
    desk.do(
        "run", desk.plan({"task_id": "a", "device": "desk", "skill": "measure", "requires_approval": True}), "--fleet", desk.fleet, code=3
    )
    run = desk.runs()[0]["run"]
    said = desk.do("resume", run, "--fleet", own_fleet(desk), code=2).stderr
    assert f"run {run}: this fleet has no device 'desk', which task a needs" in said
    desk.do("answer", run, "approve")


def test_what_a_resume_makes_again_is_in_the_journal(desk: Desk) -> None:
    plan = desk.plan({"task_id": "a", "device": "desk", "skill": "wait"})
    with desk.start("run", plan, "--fleet", desk.fleet, gated=True) as owner:
        desk.reach()
        os.kill(owner.pid, signal.SIGKILL)
    run = desk.runs()[0]["run"]
    assert "a wait  retried with the same key" in desk.do("resume", run).stdout.replace("a  retried", "a wait  retried")
    claimed = [json.loads(line) for line in desk.do("log", run, "--json").stdout.splitlines() if '"ownership_acquired"' in line]
    assert len(claimed) == 2


def test_a_database_that_cannot_be_used_leaves_nothing_behind(desk: Desk) -> None:
    plan = desk.plan({"task_id": "a", "device": "desk", "skill": "measure"})
    text = desk.folder / "text.db"
    text.write_text("not a database", encoding="utf-8")
    before = sorted(path.name for path in desk.folder.iterdir())
    desk.do("run", plan, "--fleet", desk.fleet, "--database", text, code=2)
    assert sorted(path.name for path in desk.folder.iterdir()) == before


def test_in_yaml_on_is_a_name_and_yes_is_a_text(desk: Desk) -> None:
    plan = desk.folder / "plan.yaml"
    plan.write_text(
        "tasks:\n- {task_id: a, device: server, skill: deploy, inputs: {where: yes}, retry: {on: [raised]}}\n", encoding="utf-8"
    )
    assert "completed: deployed=yes" in desk.do("run", plan, "--fleet", desk.fleet).stdout


def test_output_that_cannot_be_written_is_one_line(desk: Desk) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        said = subprocess.run(desk.argv("--help"), env=desk.environment(), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert said.returncode == 1
    assert "Traceback" not in said.stderr


def test_a_run_goes_on_when_its_output_cannot_be_written(desk: Desk) -> None:
    plan = desk.plan({"task_id": "a", "device": "desk", "skill": "measure"})
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        argv = desk.argv("run", plan, "--fleet", desk.fleet)
        said = subprocess.run(argv, env=desk.environment(), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in said.stderr
    assert desk.runs()[0]["status"] == "ended"


def test_a_result_file_that_is_a_link_stays_one_and_a_folder_is_refused_first(desk: Desk) -> None:
    plan = desk.plan({"task_id": "a", "device": "desk", "skill": "measure"})
    link, target = desk.folder / "link.json", desk.folder / "target.json"
    link.symlink_to(target)
    desk.do("run", plan, "--fleet", desk.fleet, "--result-file", link)
    assert link.is_symlink()
    assert json.loads(target.read_text(encoding="utf-8"))["state"] == "FINISH"
    assert "it is a folder" in desk.do("run", plan, "--fleet", desk.fleet, "--result-file", desk.folder, code=2).stderr
    assert len(desk.runs()) == 1


def test_an_answer_that_was_written_down_is_taken_by_a_resume_without_an_id(desk: Desk) -> None:
    plan = desk.plan({"task_id": "a", "device": "desk", "skill": "measure", "requires_approval": True})
    for _ in range(2):
        desk.do("run", plan, "--fleet", desk.fleet, code=3)
    desk.do("answer", desk.runs()[0]["run"], "approve", "--no-drive")
    desk.do("resume")
    assert sorted(run["status"] for run in desk.runs()) == ["ended", "waiting"]


@pytest.mark.parametrize(
    "text", ["tasks: !!bool abc", "? [a, b]\n: 1", "tasks: !!timestamp abc", "a0: &a [1]\n" + "b: [" + "*a, " * 30 + "1]"]
)
def test_rubbish_in_yaml_is_one_line(desk: Desk, text: str) -> None:
    plan = desk.folder / "plan.yaml"
    plan.write_text(text, encoding="utf-8")
    said = desk.do("run", plan, "--fleet", desk.fleet, code=2).stderr
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM entries WHERE seq = 4", "entry 4"),
        ("DELETE FROM entries WHERE seq = 5", "entry 5: it is missing"),
        ("UPDATE entries SET body = replace(body, '0.8', '0.9') WHERE seq = 3", ""),
        ("UPDATE entries SET at = 'x' WHERE seq = 3", "entry 3: "),
        ("UPDATE runs SET machine = 'Nope'", "its machine 'Nope' is not known here"),
    ],
)
def test_a_journal_edited_by_hand_is_named(desk: Desk, statement: str, told: str) -> None:
    desk.do("run", desk.plan({"task_id": "a", "device": "desk", "skill": "measure"}), "--fleet", desk.fleet)
    run = desk.runs()[0]["run"]
    with contextlib.closing(sqlite3.connect(desk.database)) as connection, connection:
        connection.execute(statement)
    said = desk.do("show", run, code=None)
    assert told in said.stderr
    assert "Traceback" not in said.stderr
    if statement.startswith("DELETE"):
        assert told in desk.do("log", run, "--follow", code=1).stderr


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("export {run} >&-", ""),
        ("chat agents.py:Any <&-", "standard input is closed; chat reads your messages from it"),
        ("mcp edit {run} <&-", "standard input or output is closed"),
        ("mcp edit {run} >&-", "standard input or output is closed"),
    ],
)
def test_a_standard_stream_that_is_closed_is_no_traceback(desk: Desk, line: str, told: str) -> None:
    desk.do("run", desk.plan({"task_id": "a", "device": "desk", "skill": "measure"}), "--fleet", desk.fleet)
    (desk.folder / "agents.py").write_text(
        "from asterism.conversation.python import StandardAgent\n\nclass Any(StandardAgent): pass\n", encoding="utf-8"
    )
    shell = f'"{sys.executable}" -m asterism.cli {line.format(run=desk.runs()[0]["run"])}'
    done = subprocess.run(
        ["sh", "-c", shell], env=desk.environment(), cwd=desk.folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, "Traceback" in done.stderr, told in done.stderr) == (2 if told else 0, False, True)


def test_a_folder_that_was_removed_is_told_as_that(desk: Desk) -> None:
    gone = desk.folder / "gone"
    gone.mkdir()
    shell = f'rmdir "{gone}" && "{sys.executable}" -m asterism.cli chat orders.py'
    done = subprocess.run(["sh", "-c", shell], env=desk.environment(), cwd=gone, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (2, "asterism: the current folder was removed; change to another one\n")


def test_a_cancel_says_that_finally_tasks_still_run(desk: Desk) -> None:
    plan = desk.folder / "plan.json"
    wait = {"device": "desk", "skill": "wait"}
    plan.write_text(json.dumps({"tasks": [{"task_id": "work", **wait}], "finally": [{"task_id": "clean", **wait}]}), encoding="utf-8")
    with desk.start("run", plan, "--fleet", desk.fleet, gated=True) as run:
        desk.reach()
        run_id = desk.runs()[0]["run"]
        said = desk.do("cancel", run_id).stdout
        assert said == f"run {run_id} is being cancelled: its finally tasks run now; cancel it again to end it at once\n"
        desk.reach()
        assert desk.runs()[0]["status"] != "ended"
        assert f"run {run_id} is" in desk.do("cancel", run_id).stdout
        run.communicate(timeout=TIMEOUT_S)
        assert run.returncode == INTERRUPTED
    assert desk.runs()[0]["outcome"] == "cancelled"
