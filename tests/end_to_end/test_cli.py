"""The commands as a user types them: what they print, what they write, how they exit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.desk import Desk

REQUEST = "measure the accuracy on my desk, then deploy it on the server if accuracy > 95%"
MEASURE: dict[str, Any] = {"task_id": "task_001", "name": "measure", "device": "desk"}
DEPLOY: dict[str, Any] = {"task_id": "task_002", "name": "deploy", "device": "server"}
THEN = [{"from": "task_001", "to": "task_002"}]


def test_a_request_in_words_is_planned_drawn_run_and_told(desk: Desk) -> None:
    said = desk.do("run", REQUEST, "--fleet", desk.fleet).stdout
    lines = [line.strip() for line in said.splitlines()]
    (run,) = desk.runs()
    assert lines[0] == f"run {run['run']}"
    assert lines[2:5] == ["●  task_001  measure  desk", "┆  if accuracy > 0.95", "●  task_002  deploy   server"]
    assert any(line.endswith("task_001 measure  completed: accuracy=0.8") for line in lines)
    assert any(line.endswith("task_002 deploy  skipped: accuracy > 0.95 is false: accuracy is 0.8") for line in lines)
    assert lines[-2] == "2 tasks: 1 completed, 1 skipped; task_002 deploy (accuracy > 0.95 is false: accuracy is 0.8)"
    assert lines[-1] == f"more: asterism show {run['run']}"
    assert run["outcome"] == "finished"
    assert desk.performed() == ["task_001"]


def test_json_is_one_object_a_line_and_the_result_last_and_in_the_result_file(desk: Desk) -> None:
    plan = desk.plan(MEASURE, {"task_id": "x", "name": "fail", "device": "desk"})
    result_file = desk.folder / "result.json"
    said = desk.do("run", plan, "--fleet", desk.fleet, "--json", "--result-file", result_file, code=1).stdout
    *events, last = [json.loads(line) for line in said.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["event"]["type"] == "constellation_submitted"
    assert last == json.loads(result_file.read_text(encoding="utf-8"))
    assert {key: last[key] for key in ("state", "outcome", "status")} == {"state": "FAIL", "outcome": "failed", "status": "ended"}
    assert {key: last["result"][key] for key in ("total_tasks", "completed", "failed", "skipped")} == {
        "total_tasks": 2,
        "completed": 1,
        "failed": 1,
        "skipped": 0,
    }
    assert last["tasks"]["task_001"] == {
        "name": "measure",
        "device": "desk",
        "status": "COMPLETED",
        "result": {"accuracy": 0.8},
        "error": None,
    }
    assert last["tasks"]["x"]["error"]["code"] == "raised"
    assert not [path for path in desk.folder.iterdir() if path.name.startswith(".result")]


def test_what_plan_prints_as_json_is_what_run_takes(desk: Desk) -> None:
    document = desk.do("plan", REQUEST, "--fleet", desk.fleet, "--json").stdout
    path = desk.folder / "written.json"
    path.write_text(document, encoding="utf-8")
    assert [line["condition"] for line in json.loads(document)["dependencies"]] == ["accuracy > 0.95"]
    assert desk.do("plan", path, "--fleet", desk.fleet).stdout == desk.do("plan", REQUEST, "--fleet", desk.fleet).stdout
    assert "flowchart TD" in desk.do("plan", path, "--fleet", desk.fleet, "--mermaid").stdout
    assert not desk.database.exists()
    desk.do("run", path, "--fleet", desk.fleet)
    assert desk.performed() == ["task_001"]


def test_a_run_whose_working_folder_is_missing_is_not_driven_and_not_changed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    original, moved = desk.folder / "original", desk.folder / "moved"
    original.mkdir()
    with monkeypatch.context() as there:
        there.chdir(original)
        desk.do("run", desk.plan({**DEPLOY, "requires_approval": True}), "--fleet", desk.fleet, code=3)
        (inquiry,) = json.loads(desk.do("inbox", "--json").stdout)
    original.rename(moved)
    assert "recorded" in desk.do("answer", inquiry["inquiry"], "approve", code=1).stdout
    (before,) = desk.runs()
    refused = desk.do("resume", before["run"], "--fleet", desk.fleet, code=2)
    assert f"there is no folder {original}, where it was submitted and task {DEPLOY['task_id']} is performed" in refused.stderr
    assert desk.runs() == [before]
    moved.rename(original)
    desk.do("resume", before["run"])
    assert desk.runs()[0]["outcome"] == "finished"


def test_a_task_that_needs_approval_waits_is_answered_from_another_process_and_runs_once(desk: Desk) -> None:
    plan = desk.plan(MEASURE, {**DEPLOY, "requires_approval": True, "inputs": {"where": "moon"}}, dependencies=THEN)
    said = desk.do("run", plan, "--fleet", desk.fleet, code=3).stdout
    (run,) = desk.runs()
    assert run["status"] == "waiting"
    assert desk.performed() == ["task_001"]
    (asked,) = json.loads(desk.do("inbox", "--json").stdout)
    assert asked["subject"] == {
        "task_id": "task_002",
        "device": "server",
        "skill": "deploy",
        "description": "deploy",
        "arguments": {"where": "moon"},
        "results": {"task_001": {"accuracy": 0.8}},
    }
    assert f"asterism answer {asked['inquiry']} approve|edit|reject" in said
    assert '{"where": "moon"}' in desk.do("inbox").stdout

    no_json = desk.do("answer", asked["inquiry"], "edit", "--value", "mars", code=2)
    assert "--value mars is not JSON" in no_json.stderr
    unusable = desk.do("answer", asked["inquiry"], "edit", "--value", '{"whither": "mars"}', code=1)
    assert "takes where" in unusable.stderr
    answered = desk.do("answer", run["run"].partition("-")[2], "edit", "--value", '{"where": "mars"}')
    assert "completed: deployed=mars" in answered.stdout
    late = desk.do("answer", asked["inquiry"], "reject", code=1)
    assert "is no longer open: edit by" in late.stderr
    assert desk.performed() == ["task_001", "task_002"]
    assert desk.do("inbox").stdout == "no open questions\n"


def test_a_rejected_task_fails_the_run_with_the_reason(desk: Desk) -> None:
    plan = desk.plan({**DEPLOY, "requires_approval": True})
    desk.do("run", plan, "--fleet", desk.fleet, code=3)
    (run,) = desk.runs()
    said = desk.do("answer", run["run"], "no", "--reason", "not on a Friday", code=1).stdout
    assert "not on a Friday" in said
    assert desk.performed() == []


def test_an_answer_may_be_written_down_for_whoever_goes_on(desk: Desk) -> None:
    desk.do("run", desk.plan({**DEPLOY, "requires_approval": True}), "--fleet", desk.fleet, code=3)
    (run,) = desk.runs()
    desk.do("answer", run["run"], "approve", "--no-drive")
    listed = desk.do("inbox").stdout
    assert f"takes effect with: asterism resume {run['run']}" in listed
    shown = desk.do("show", run["run"]).stdout
    assert f"takes effect with: asterism resume {run['run']}" in shown
    assert "asterism answer" not in listed + shown
    assert "was answered already: approve" in desk.do("answer", run["run"], "reject", code=1).stderr
    assert desk.performed() == []
    desk.do("resume")
    assert desk.performed() == ["task_002"]
    assert desk.do("resume").stdout == "nothing to resume\n"


def test_a_run_that_is_driven_is_left_to_its_driver(desk: Desk) -> None:
    plan = desk.plan({"task_id": "gate", "name": "wait", "device": "desk"})
    with desk.start("run", plan, "--fleet", desk.fleet, gated=True) as driver:
        desk.reach()
        (run,) = desk.runs()
        told = desk.do("resume", run["run"], code=1)
        assert told.stderr.startswith(f"asterism: run {run['run']} is being driven by process {driver.pid} on ")
        assert f"running in process {driver.pid}" in desk.do("runs").stdout
        with desk.start("log", run["run"], "--follow") as follower:
            desk.do("cancel", run["run"], "--reason", "enough")
            followed, _ = follower.communicate(timeout=60)
        out, _ = driver.communicate(timeout=60)
        assert driver.returncode == 130
    assert "cancelled by" in out
    assert "enough" in followed
    assert [row["outcome"] for row in desk.runs()] == ["cancelled"]
    assert "has already ended (cancelled)" in desk.do("cancel", run["run"], code=1).stderr


def test_show_tells_the_states_the_tasks_and_the_numbers(desk: Desk) -> None:
    desk.do("run", REQUEST, "--fleet", desk.fleet)
    (row,) = desk.runs()
    shown = desk.do("show", row["run"][:9]).stdout
    for words in ("START", "CONTINUE", "FINISH", "skipped: accuracy > 0.95 is false", "1 attempt", "critical path", "(device:desk)"):
        assert words in shown
    data = json.loads(desk.do("show", row["run"], "--json").stdout)
    assert [step["state"] for step in data["states"]] == ["START", "CONTINUE", "FINISH"]
    assert data["metrics"]["critical_path"] == ["task_001"]
    assert data["metrics"]["wall_over_critical_path"] >= 1
    assert set(data["time_per_state"]) == {"START", "CONTINUE", "FINISH"}
    assert "SKIPPED" in desk.do("show", row["run"], "--mermaid").stdout
    log = desk.do("log", row["run"]).stdout.splitlines()
    assert log[0].split()[0] == "1"
    assert desk.do("log", row["run"], "--after", "3").stdout.splitlines() == [line for line in log if int(line.split()[0]) > 3]


HOSTILE = "\x1b]0;x\x07a\u202e\nasterism: all is well"


@pytest.mark.parametrize(
    "arguments",
    [
        ("chat", f"{HOSTILE}.py"),
        ("fleet", "check", f"{HOSTILE}.toml"),
        ("run", f"{HOSTILE}.json", "--fleet", "fleet.toml"),
        ("import", f"{HOSTILE}.jsonl"),
        ("runs", "--database", HOSTILE),
        ("show", HOSTILE, f"--{HOSTILE}"),
        (HOSTILE,),
    ],
)
def test_what_an_error_names_cannot_touch_the_terminal(desk: Desk, arguments: tuple[str, ...]) -> None:
    said = desk.do(*arguments, code=2, cwd=desk.folder).stderr
    assert said.startswith("asterism: ")
    assert all(line.isprintable() for line in said.splitlines())
    assert "\nasterism:" not in said


def test_what_a_device_says_cannot_touch_the_terminal(desk: Desk) -> None:
    plan = desk.plan({"task_id": "rude", "name": "rude", "device": "desk"}, {"task_id": "fail", "name": "fail", "device": "desk"})
    said = desk.do("run", plan, "--fleet", desk.fleet, code=1).stdout
    (run,) = desk.runs()
    said += desk.do("show", run["run"]).stdout + desk.do("log", run["run"]).stdout
    assert "[bold red]red[/]" in said
    assert "[/red] no " in said
    assert all(char.isprintable() or char == "\n" for char in said)


# -- what cannot be used ---------------------------------------------------------------------------


def bad_plans(desk: Desk) -> dict[str, tuple[list[str | Path], str]]:
    def plan(name: str, *tasks: dict[str, Any], dependencies: list[dict[str, str]] | None = None) -> list[str | Path]:
        return [desk.plan(*tasks, dependencies=dependencies, name=f"{name}.json")]

    round_about = [{"from": "task_001", "to": "task_002"}, {"from": "task_002", "to": "task_001"}]
    twice = desk.folder / "twice.yaml"
    twice.write_text("tasks:\n  a: {name: measure, device: desk}\n  a: {name: deploy, device: server}\n", encoding="utf-8")
    return {
        "cycle": (plan("cycle", MEASURE, DEPLOY, dependencies=round_about), "task_001 -> task_002 -> task_001"),
        "device": (plan("device", {**MEASURE, "device": "laptop"}), "laptop"),
        "skill": (plan("skill", {**MEASURE, "skill": "levitate"}), "levitate"),
        "field": (plan("field", {**MEASURE, "colour": "red"}), "colour"),
        "condition": (plan("condition", MEASURE, DEPLOY, dependencies=[{**THEN[0], "condition": "accuracy >"}]), "does not parse"),
        "reference": (plan("reference", MEASURE, {**DEPLOY, "inputs": {"where": "${task_001.accuracy}"}}), "not upstream"),
        "duplicate": (plan("duplicate", MEASURE, MEASURE), "is there twice"),
        "duplicate name": ([twice], "duplicate name 'a'"),
        "empty": (["  "], "the request is empty"),
        "unplaceable": (["measure the accuracy, then brew coffee"], "brew coffee"),
        "no file": (["nowhere.json"], "there is no such plan file"),
    }


@pytest.mark.parametrize(
    "what",
    ["cycle", "device", "skill", "field", "condition", "reference", "duplicate", "duplicate name", "empty", "unplaceable", "no file"],
)
def test_a_plan_that_cannot_be_used_is_one_clear_error_and_nothing_is_written(desk: Desk, what: str) -> None:
    arguments, named = bad_plans(desk)[what]
    for command in ("plan", "run"):
        refused = desk.do(command, *arguments, "--fleet", desk.fleet, code=2)
        assert refused.stdout == ""
        assert refused.stderr.startswith("asterism: ")
        assert named in refused.stderr
        assert "Traceback" not in refused.stderr
        assert len(refused.stderr.splitlines()) == (3 if what == "unplaceable" else 1)  # with the clause and a request that can be planned
    assert not desk.database.parent.exists()
    assert desk.performed() == []


def test_a_refused_plan_adds_no_run_to_a_database_that_is_there(desk: Desk) -> None:
    desk.do("run", desk.plan(MEASURE), "--fleet", desk.fleet)
    before = desk.runs()
    for arguments, _ in bad_plans(desk).values():
        desk.do("run", *arguments, "--fleet", desk.fleet, code=2)
    assert desk.runs() == before


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("devices = [", "not TOML"),
        ("[[devices]]\nid = 'a'\nskils = []", "skils"),
        ("[[devices]]\nid = 'a'\nskills = ['nowhere.py:f']", "nowhere.py:f"),
    ],
    ids=["not TOML", "unknown key", "skill that does not import"],
)
def test_a_fleet_file_that_cannot_be_used_is_one_clear_error(desk: Desk, text: str, named: str) -> None:
    desk.fleet.write_text(text, encoding="utf-8")
    commands: list[list[str | Path]] = [["fleet", "check", desk.fleet], ["run", REQUEST, "--fleet", desk.fleet]]
    for command in commands:
        refused = desk.do(*command, code=2)
        assert refused.stderr.startswith(f"asterism: {desk.fleet}: ")
        assert named in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    assert not desk.database.parent.exists()


def test_a_parameter_without_a_type_is_named(desk: Desk) -> None:
    source = desk.fleet.with_name("untyped.py")
    source.write_text("from asterism import skill\n@skill\ndef say(word, times=1, *, loud: bool = False) -> str:\n    return word\n")
    desk.fleet.write_text(f"[[devices]]\nid = 'a'\nskills = ['{source}:say']\n", encoding="utf-8")
    assert "without a type, so any value is accepted: word, times\n" in desk.do("fleet", "check", desk.fleet).stdout


def test_a_database_that_is_not_ours_is_left_as_it_is(desk: Desk) -> None:
    desk.database.parent.mkdir()
    desk.database.write_text("my diary\n", encoding="utf-8")
    commands: list[list[str | Path]] = [["run", REQUEST, "--fleet", desk.fleet], ["runs"], ["inbox"]]
    for command in commands:
        refused = desk.do(*command, code=2)
        assert "it is not a SQLite database; name another file" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    assert desk.database.read_text(encoding="utf-8") == "my diary\n"


def test_a_database_that_is_not_there_is_said_to_readers(desk: Desk) -> None:
    for command in (["runs"], ["inbox"], ["show", "x"], ["log", "x"], ["cancel", "x"], ["answer", "x", "approve"]):
        refused = desk.do(*command, code=2)
        assert refused.stderr == f"asterism: database {desk.database}: there is none; start a run to make it, or name another file\n"
    assert not desk.database.parent.exists()


def test_a_usage_error_is_one_line_and_exit_2(desk: Desk) -> None:
    for arguments in (
        ["run"],
        ["run", "x"],
        ["fly"],
        ["show"],
        ["log", "x", "--after", "y"],
        ["answer", "x", "perhaps"],
        ["diagram", "cat"],
    ):
        refused = desk.do(*arguments, code=2)
        assert refused.stderr.startswith("asterism: ")
        assert len(refused.stderr.splitlines()) == 1


def test_the_beginning_of_an_id_must_mean_one_run(desk: Desk) -> None:
    plan = desk.plan(MEASURE)
    for _ in range(2):
        desk.do("run", plan, "--fleet", desk.fleet)
    day = desk.runs()[0]["run"].partition("-")[0]
    assert "give more of the id" in desk.do("show", day, code=2).stderr
    assert "give more of the id" in desk.do("answer", day, "approve", code=2).stderr, "although only one run may ask"
    assert "there is no run 'zzz'" in desk.do("show", "zzz", code=2).stderr


def test_a_run_goes_on_when_nobody_reads_its_output_any_more(desk: Desk) -> None:
    plan = desk.plan({"task_id": "gate", "name": "wait", "device": "desk"}, MEASURE, dependencies=[{"from": "gate", "to": "task_001"}])
    with desk.start("run", plan, "--fleet", desk.fleet, gated=True) as driver:
        desk.reach()
        assert driver.stdout is not None
        driver.stdout.close()
        desk.open_gate()
        assert driver.stderr is not None
        assert driver.stderr.read() == ""
        assert driver.wait(timeout=60) == 0
    assert desk.performed() == ["gate", "task_001"]
    command = " ".join(desk.argv("log", desk.runs()[0]["run"]))
    cut = subprocess.run(["sh", "-c", f"{command} | head -1"], env=desk.environment(), capture_output=True, text=True, check=True)
    assert cut.stderr == ""
    assert len(cut.stdout.splitlines()) == 1


def test_diagrams_are_mermaid(desk: Desk) -> None:
    assert desk.do("diagram", "constellation-agent").stdout.startswith("stateDiagram-v2\n    [*] --> START\n")
    assert "RUNNING --> COMPLETED" in desk.do("diagram", "task").stdout
    assert "PLANNING --> EXECUTING" in desk.do("diagram", "orchestration-loop").stdout


def test_a_guard_of_a_plan_is_lifted_by_its_name_and_with_a_reason(desk: Desk) -> None:
    """A1: by nothing else."""
    plan = desk.plan(MEASURE, {**DEPLOY, "requires_approval": True, "inputs": {"where": "moon"}}, dependencies=THEN)
    desk.do("run", plan, "--fleet", desk.fleet, code=3)
    (run,) = desk.runs()
    unknown = desk.do("lift", run["run"], "measure", "--reason", "x", code=2)
    assert "no plan has guarded 'measure'; guarded: deploy" in unknown.stderr
    assert "deploy needs no approval" in desk.do("lift", run["run"], "deploy", "--reason", "checked by hand").stdout
    desk.do("resume", run["run"], code=3)
    assert "checked by hand" in desk.do("log", run["run"], "--json").stdout
