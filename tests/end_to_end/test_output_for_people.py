"""What the commands print for a person: first what matters, each fact once, and no more than a screen without a pager."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end import command
from tests.end_to_end.test_chat import WITHIN_S, Terminal

SKILLS = """
from asterism import skill


@skill(idempotent=True)
def double(number: int) -> int:
    '''Double a number.'''
    if number == 5:
        raise ValueError("five is broken")
    return number * 2
"""
FLEET = '[[devices]]\nid = "desk"\nkind = "local"\nskills = ["skills.py:double"]\nconcurrency = 2\n'
ITEMS = list(range(12))
EACH = {"task_id": "each", "device": "desk", "skill": "double", "inputs": {"number": "${item}"}}
FAILING = {
    "tasks": [{"task_id": f"t{number}", "device": "desk", "skill": "double", "inputs": {"number": number}} for number in (5, 6, 7)],
    "dependencies": [{"from": "t5", "to": "t6"}, {"from": "t6", "to": "t7"}],
}
PROGRAM = """
import asyncio, sys
import asterism
from asterism import Constellation, skill


@skill()
def wait(folder: str) -> str:
    import pathlib, time
    pathlib.Path(folder, "begun").touch()
    while True:
        time.sleep(0.02)


waiting = Constellation("waiting")
waiting.task(wait, folder=".")
asking = Constellation("asking")
asking.task(wait, folder=".", requires_approval=True)

if __name__ == "__main__":
    asterism.run({"waiting": waiting, "asking": asking}[sys.argv[1]], database=sys.argv[2])
"""

Do = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plans = {
        "fan_out": {"tasks": [{**EACH, "for_each": {"items": ITEMS, "failed": "omit"}}]},
        "failing": FAILING,
        "handlers": {"tasks": [], "finally": [{"task_id": "clean", "device": "desk", "skill": "double", "inputs": {"number": 1}}]},
    }
    for name, plan in plans.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(plan), encoding="utf-8")
    (tmp_path / "skills.py").write_text(SKILLS, encoding="utf-8")
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


@pytest.fixture
def do(folder: Path) -> Do:
    environment = {**os.environ, "ASTERISM_DATABASE": str(folder / "flows.db")}

    def do(*arguments: str, code: int) -> subprocess.CompletedProcess[str]:
        done = command.run(list(arguments), env=environment, timeout=WITHIN_S, cwd=folder)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return do


@pytest.fixture
def terminals(folder: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def at_a_terminal(*arguments: str) -> Terminal:
        opened.append(Terminal(folder, *arguments))
        return opened[-1]

    yield at_a_terminal
    for terminal in opened:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.keys)


def started(do: Do, plan: str, *options: str, code: int = 0) -> tuple[str, str]:
    said = do("run", f"{plan}.json", "--fleet", "fleet.toml", *options, code=code).stdout
    return said.split()[1], said


def test_a_pipe_gets_the_errors_of_a_fan_out_and_a_summary_of_its_items(do: Do) -> None:
    run, said = started(do, "fan_out")
    of_items = [line for line in said.splitlines() if "each[" in line]
    assert ["failed: ValueError: five is broken" in line for line in of_items] == [True]
    assert "11 of 12 items, 1 failed" in said
    assert do("log", run, code=0).stdout.count("each[7]") >= 2


def test_every_item_prints_each_event(do: Do) -> None:
    said = started(do, "fan_out", "--every-item")[1]
    assert all(f"each[{index}]  completed" in said for index in ITEMS if index != 5)


def test_fork_and_retry_print_each_event_if_asked(do: Do) -> None:
    run, _ = started(do, "fan_out")
    begun = next(line.split()[0] for line in do("log", run, code=0).stdout.splitlines() if "performed for 12 items" in line)
    forked = do("fork", run, "--at", str(int(begun) - 1), "--every-item", code=0).stdout
    assert all(f"each[{index}]  completed" in forked for index in ITEMS if index != 5)
    waiting = do("fork", run, "--at", begun, "--no-drive", code=0).stdout.split()[1]
    assert "each[7]  completed" in do("resume", waiting, "--every-item", code=0).stdout


def test_show_begins_with_the_error_and_the_commands_that_follow(do: Do) -> None:
    run, said = started(do, "failing", code=1)
    assert said.splitlines()[-3] == "3 tasks: 1 failed, 2 skipped"
    assert do("show", run, code=0).stdout.splitlines()[2:8] == [
        "3 tasks: 1 failed, 2 skipped",
        "t5 (double) is FAILED: ValueError: five is broken (skills.py:9)",
        "",
        f"explain: asterism why {run} t5",
        f"run what failed again: asterism retry {run}",
        "",
    ]


def test_a_terminal_gets_a_header_and_both_the_number_of_all_runs(do: Do, terminals: Callable[..., Terminal]) -> None:
    for _ in range(3):
        started(do, "failing", code=1)
    listed = do("runs", "--limit", "2", code=0).stdout.splitlines()
    assert len(listed) == 3
    assert listed[-1] == "2 of 3 runs; all of them: asterism runs --limit 3"
    assert len(do("runs", "--limit", "3", code=0).stdout.splitlines()) == 3
    terminal = terminals("runs")
    assert terminal.read_until("failing").split("\r\n")[0].split() == ["RUN", "STATUS", "STARTED", "TITLE"]


def test_show_pages_at_a_terminal_only_and_not_where_it_fits_or_is_not_wanted(
    do: Do, terminals: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    run, _ = started(do, "fan_out")
    pager = folder / "pager.py"
    pager.write_text("import sys; text = sys.stdin.read(); print(len(text.splitlines()), 'lines paged')", encoding="utf-8")
    monkeypatch.setenv("PAGER", f"{sys.executable} {pager}")
    monkeypatch.setenv("LINES", "8")
    monkeypatch.setenv("TERMINAL_KIND", "xterm")
    terminals("show", run).read_until("lines paged\r\n")
    terminals("show", run, "--no-pager").read_until("metrics")
    assert "paged" not in do("show", run, code=0).stdout
    monkeypatch.setenv("LINES", "200")
    terminals("show", run).read_until("metrics")
    monkeypatch.setenv("LINES", "8")
    monkeypatch.setenv("NO_PAGER", "1")
    terminals("show", run).read_until("metrics")


def test_retry_of_an_unknown_item_names_the_items_that_there_are(do: Do) -> None:
    run, _ = started(do, "fan_out")
    assert "there is no item 'each[99]'; each has each[0] to each[11]; failed: each[5]" in do("retry", run, "each[99]", code=1).stderr


def test_a_plan_of_handlers_alone_is_refused_by_their_name(do: Do) -> None:
    refused = do("run", "handlers.json", "--fleet", "fleet.toml", code=2).stderr
    assert "there are only handlers (finally: clean), which run after tasks; add a task" in refused


def test_a_fleet_of_a_python_file_is_named_as_unused(do: Do, folder: Path) -> None:
    text = "from asterism import Constellation, Device, Fleet\nfleet = Fleet(Device('lab', skills=[]))\n"
    made = "plan = Constellation.from_plan({'tasks': [{'task_id': 'a', 'device': 'lab', 'skill': 'x'}]})\n"
    (folder / "own.py").write_text(text + made, encoding="utf-8")
    refused = do("run", "own.py", code=2).stderr
    assert "The fleet 'fleet' in own.py is for programs (asterism.run); a command reads a fleet file." in refused


def program(folder: Path, what: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "program.py", what, "own.db"], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_a_program_whose_run_waits_says_at_a_terminal_where_to_answer(folder: Path) -> None:
    process = program(folder, "asking")
    assert process.communicate(timeout=WITHIN_S) == ("", "")
    keys, screen = pty.openpty()
    argv = [sys.executable, "program.py", "asking", "own.db"]
    assert subprocess.run(argv, cwd=folder, stderr=screen, timeout=WITHIN_S, check=False).returncode == 0
    os.close(screen)
    said = os.read(keys, 65536).decode().splitlines()
    os.close(keys)
    assert re.fullmatch(r"answer with: asterism answer \S+:\S+ approve\|\S+ .*--database own\.db", said[-1])
    assert " waits for a person: Run " in said[-2]


def test_ctrl_c_in_a_program_is_one_line_and_the_run_can_be_resumed(folder: Path) -> None:
    process = program(folder, "waiting")
    deadline = time.monotonic() + WITHIN_S
    while not (folder / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130, said
    (line,) = said.splitlines()
    assert line.startswith("interrupted; nothing is lost. Resume with: asterism resume ")
    assert line.endswith(" --database own.db")
    listed = command.run(["runs", "--database", "own.db"], env=os.environ, timeout=WITHIN_S, cwd=folder)
    assert "interrupted" in listed.stdout
