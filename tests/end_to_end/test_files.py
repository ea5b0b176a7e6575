"""Files between tasks, with real processes: list, save, fork, prune, kill."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.desk import Desk

SKILLS = Path(__file__).parent / "file_skills.py"
FLEET = f"""
[[devices]]
id = "desk"
skills = ["{SKILLS}:make", "{SKILLS}:count"]

[[devices.commands]]
name = "double"
argv = ["sh", "-c", "cat \\"$1\\" \\"$1\\" > \\"$2\\"", "sh", "{{source}}", "{{output}}"]
files = ["source"]
output = "file"
file = "double.txt"
"""
TASKS: tuple[dict[str, Any], ...] = (
    {"task_id": "make", "device": "desk", "skill": "make", "inputs": {"text": "hello"}},
    {"task_id": "double", "device": "desk", "skill": "double", "inputs": {"source": "${make}"}},
    {"task_id": "count", "device": "desk", "skill": "count", "inputs": {"source": "${double}"}},
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    found = Desk(tmp_path)
    found.fleet.write_text(FLEET, encoding="utf-8")
    return found


def plan(desk: Desk) -> Path:
    return desk.plan(*TASKS, dependencies=[{"from": "make", "to": "double"}, {"from": "double", "to": "count"}])


def test_a_file_is_given_to_a_run_when_it_is_submitted(desk: Desk, tmp_path: Path) -> None:
    given = {"params": {"report": "file"}, "tasks": [{**TASKS[2], "inputs": {"source": "${params.report}"}}]}
    (tmp_path / "given.json").write_text(json.dumps(given), encoding="utf-8")
    (tmp_path / "q3.txt").write_text("third", encoding="utf-8")
    desk.do("run", tmp_path / "given.json", "--fleet", desk.fleet, "--set", f"report={tmp_path / 'q3.txt'}")
    run = str(desk.runs()[0]["run"])
    assert desk.do("files", run).stdout.startswith("q3.txt  5 bytes  text/plain  sha256:")
    refused = desk.do("run", tmp_path / "given.json", "--fleet", desk.fleet, "--set", "report=no.txt", code=2)
    assert refused.stderr == "asterism: no.txt: there is no such file\n"


def contents(desk: Desk) -> list[Path]:
    return [it for it in Path(f"{desk.database}.files").iterdir() if it.name != "lock"]


def test_a_file_travels_from_task_to_task_and_is_listed_and_saved(desk: Desk, tmp_path: Path) -> None:
    desk.do("run", plan(desk), "--fleet", desk.fleet)
    run = str(desk.runs()[0]["run"])
    saved = tmp_path / "saved"
    listed = desk.do("files", run, "--save", saved).stdout
    assert [line.split("  ")[:3] for line in listed.splitlines()] == [
        ["made.txt", "5 bytes", "text/plain"],
        ["double.txt", "10 bytes", "text/plain"],
        [f"saved in {saved}"],
    ]
    assert {it.name: it.read_text() for it in saved.iterdir()} == {"made.txt": "hello", "double.txt": "hellohello"}
    assert len(json.loads(desk.do("files", run, "--json").stdout)) == 2
    assert not Path(f"{desk.database}.work").exists() or not any(Path(f"{desk.database}.work").rglob("*.txt"))
    desk.do("files", run, "--save", saved)
    assert desk.do("files", run, "--save", saved, code=2).stderr.startswith(f"asterism: --save {saved}: it has a file made.txt already")


def test_a_fork_has_the_files_of_its_origin_and_prune_removes_those_that_no_run_has(desk: Desk) -> None:
    desk.do("run", plan(desk), "--fleet", desk.fleet)
    run = str(desk.runs()[0]["run"])
    log = [json.loads(line) for line in desk.do("log", run, "--json").stdout.splitlines()]
    last = max(entry["seq"] for entry in log)
    desk.do("fork", run, "--at", str(last - 2))
    fork = next(str(row["run"]) for row in desk.runs() if row["run"] != run)
    assert {line.split("  ")[0] for line in desk.do("files", fork).stdout.splitlines()} == {"made.txt", "double.txt"}
    for content in contents(desk):
        os.utime(content, (0, 0))
    desk.do("prune", "--outcome", "finished")
    assert contents(desk) == []


def test_a_killed_process_leaves_no_copy_of_a_file_for_longer_than_the_next_one_needs(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "waits"
    monkeypatch.setenv("WAIT", str(mark))
    owner = desk.start("run", plan(desk), "--fleet", desk.fleet)
    for _ in range(600):
        if mark.exists():
            break
        time.sleep(0.05)
    assert mark.exists()
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    monkeypatch.delenv("WAIT")
    assert any(Path(f"{desk.database}.work").rglob("double.txt"))
    run = str(desk.runs()[0]["run"])
    desk.do("resume", run)
    assert not any(Path(f"{desk.database}.work").rglob("double.txt"))
    assert json.loads(desk.do("show", run, "--json").stdout)["outcome"] == "finished"


def test_a_loop_and_a_conversation_read_the_text_of_a_file(desk: Desk) -> None:
    agents = SKILLS.with_name("text_agents.py")
    kinds = f'[[devices]]\nid = "loop"\nkind = "agent"\nloop = "{agents}:reader"\n[[devices]]\nid = "flow"\nkind = "flow"\n'
    desk.fleet.write_text(f'{FLEET}\n{kinds}flow = "{agents}:Reader"\n', encoding="utf-8")
    made = {"small": "hello", "large": "x" * (256 * 1024 + 1)}
    reading = {"loop": ("loop", "small"), "refused": ("loop", "large"), "flow": ("flow", "small")}
    tasks = [
        *({"task_id": name, "device": "desk", "skill": "make", "inputs": {"text": text}} for name, text in made.items()),
        *(
            {"task_id": name, "device": device, "description": "Read it.", "inputs": {"file": f"${{{source}}}"}}
            for name, (device, source) in reading.items()
        ),
    ]
    lines = [{"from": source, "to": name} for name, (_, source) in reading.items()]
    desk.do("run", desk.plan(*tasks, dependencies=lines), "--fleet", desk.fleet)
    shown = json.loads(desk.do("show", "--json", str(desk.runs()[0]["run"])).stdout)["tasks"]
    assert shown["loop"]["result"]["answer"] == {"text": "hello"}
    assert shown["refused"]["result"]["answer"] == {"error": "file made.txt: only 262,144 bytes are read as text, and it has more"}
    assert shown["flow"]["result"]["text"] == "hello"
