"""A run at a terminal asks its questions there and then: approve, edit, reject, respond, later."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end import command
from tests.end_to_end.test_chat import WITHIN_S, Terminal
from tests.support.mcp_devices import RAW

SKILLS = """
import time
from pathlib import Path
from asterism import skill


@skill()
def ship(version: str, region: str = "eu") -> str:
    '''Ship a version.'''
    return f"{version} is live in {region}"


@skill()
def publish(price: float, token: str) -> str:
    '''Publish a price.'''
    return f"{price} is published with {len(token)} characters"


@skill()
def build(number: int) -> int:
    '''Build until somebody opens the gate.'''
    while not Path("gate").exists():
        time.sleep(0.02)
    return number
"""
FLEET = '[[devices]]\nid = "desk"\nkind = "local"\nskills = ["skills.py:ship", "skills.py:publish", "skills.py:build"]\n'
SHIP = {"task_id": "ship", "device": "desk", "skill": "ship", "inputs": {"version": "1.4"}, "requires_approval": True}
PUBLISH = {"task_id": "publish", "device": "desk", "skill": "publish", "requires_approval": True}
PRICED = {"price": 10.5, "token": "${secret.SHOP_TOKEN}"}
CHOICES = "[a]pprove  [e]dit  [r]eject  [l]ater > "
EDITOR = "import pathlib, sys; file = pathlib.Path(sys.argv[1]); file.write_text(file.read_text().replace('1.4', '1.5'))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plans: dict[str, Any] = {
        "one": {"tasks": [SHIP]},
        "priced": {"tasks": [{**PUBLISH, "inputs": PRICED}]},
        "two": {"tasks": [SHIP, {**SHIP, "task_id": "again", "inputs": {"version": "2.0"}}]},
        "beside": {"tasks": [SHIP, {"task_id": "build", "device": "desk", "skill": "build", "inputs": {"number": 3}}]},
    }
    for name, plan in plans.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(plan), encoding="utf-8")
    (tmp_path / "skills.py").write_text(SKILLS, encoding="utf-8")
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")
    (tmp_path / "editor.py").write_text(EDITOR, encoding="utf-8")
    return tmp_path


@pytest.fixture
def terminals(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {folder / 'editor.py'}")
    opened: list[Terminal] = []

    def at_a_terminal(*arguments: str) -> Terminal:
        opened.append(Terminal(folder, *arguments))
        return opened[-1]

    yield at_a_terminal
    for terminal in opened:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.keys)


def run(terminals: Any, plan: str) -> Terminal:
    terminal: Terminal = terminals("run", f"{plan}.json", "--fleet", "fleet.toml")
    return terminal


def ends(terminal: Terminal, code: int, shown: str) -> str:
    said = terminal.read_until(shown)
    assert terminal.process.wait(WITHIN_S) == code, terminal.shown
    return said


def test_a_question_shows_exactly_what_would_run_and_an_approval_runs_it(terminals: Any) -> None:
    terminal = run(terminals, "one")
    asked = terminal.read_until(CHOICES)
    assert "Run ship on desk?" in asked
    assert 'arguments  {"version": "1.4"}' in asked
    terminal.type("what\r")
    assert "type approve, edit, reject or later; the initial is enough" in terminal.read_until(CHOICES)
    terminal.type("a\r")
    assert "1.4 is live in eu" in ends(terminal, 0, "more: asterism show")


def test_an_edit_opens_the_arguments_in_the_editor_and_runs_what_it_saved(terminals: Any) -> None:
    terminal = run(terminals, "one")
    terminal.read_until(CHOICES)
    terminal.type("edit\r")
    assert "1.5 is live in eu" in ends(terminal, 0, "more: asterism show")


def test_an_edit_that_changes_nothing_or_has_no_editor_sends_nothing(terminals: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "no-such-editor")
    terminal = run(terminals, "one")
    terminal.read_until(CHOICES)
    terminal.type("e\r")
    assert "set $EDITOR" in terminal.read_until(CHOICES)
    terminal.type("l\r")
    ends(terminal, 3, "approve|edit|reject")
    monkeypatch.setenv("VISUAL", "true")
    again = terminals("resume")
    again.read_until(CHOICES)
    again.type("e\r")
    assert "unchanged; nothing was sent" in again.read_until(CHOICES)


def test_arguments_that_the_run_refuses_are_opened_again_as_they_were_saved(terminals: Any, folder: Path) -> None:
    changes = "text.replace('nothing', 'version').replace('1.4', '1.5') if 'nothing' in text else text.replace('version', 'nothing')"
    editor = f"import pathlib, sys; file = pathlib.Path(sys.argv[1]); text = file.read_text(); file.write_text({changes})"
    (folder / "editor.py").write_text(editor, encoding="utf-8")
    terminal = run(terminals, "one")
    terminal.read_until(CHOICES)
    terminal.type("e\r")
    assert "not accepted: ship.inputs.nothing: ship takes version, region" in terminal.read_until(CHOICES)
    terminal.type("e\r")
    ends(terminal, 0, "1.5 is live in eu")


def test_an_edit_keeps_a_secret_that_was_shown_and_one_that_is_refused_is_opened_again(
    terminals: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASTERISM_SECRET_SHOP_TOKEN", "a-long-token")
    again = "text.replace('\"x\"', '11.5') if '\"x\"' in text else text.replace('10.5', '\"x\"')"
    editor = f"import pathlib, sys; file = pathlib.Path(sys.argv[1]); text = file.read_text(); file.write_text({again})"
    (folder / "editor.py").write_text(editor, encoding="utf-8")
    terminal = run(terminals, "priced")
    terminal.read_until(CHOICES)
    terminal.type("e\r")
    told = terminal.read_until(CHOICES)
    assert "publish.inputs.price: publish takes number, not str" in told
    fixing = (folder / "editor.py").read_text(encoding="utf-8")
    (folder / "editor.py").write_text("", encoding="utf-8")
    terminal.type("e\r")
    assert "unchanged; nothing was sent" in terminal.read_until(CHOICES)
    (folder / "editor.py").write_text(fixing, encoding="utf-8")
    terminal.type("e\r")
    assert "11.5 is published with 12 characters" in ends(terminal, 0, "more: asterism show")


def test_the_arguments_that_the_inbox_shows_are_an_edit_for_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTERISM_SECRET_SHOP_TOKEN", "a-long-token")
    monkeypatch.setenv("ASTERISM_DATABASE", str(folder / "answers.db"))

    def do(*arguments: str, code: int) -> Any:
        done = command.run(list(arguments), env={**os.environ}, timeout=WITHIN_S, cwd=folder)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    do("run", "priced.json", "--fleet", "fleet.toml", code=3)
    (asked,) = json.loads(do("inbox", "--json", code=0).stdout)
    refusals = (("price", "x", "publish.inputs.price: publish takes number, not str"), ("token", "in clear", "argument token is a secret"))
    for name, value, told in refusals:
        edited = json.dumps({**asked["subject"]["arguments"], name: value})
        assert told in do("answer", asked["inquiry"], "edit", "--value", edited, code=2).stderr
    (folder / "edit.json").write_text(json.dumps({**asked["subject"]["arguments"], "price": 12}), encoding="utf-8")
    assert "12.0 is published with 12 characters" in do("answer", asked["inquiry"], "edit", "--value", "@edit.json", code=0).stdout
    log = do("log", asked["run"], code=0).stdout
    assert "in clear" not in log
    assert "price=12" in log


def test_a_rejection_asks_for_its_reason(terminals: Any) -> None:
    terminal = run(terminals, "one")
    terminal.read_until(CHOICES)
    terminal.type("r\r")
    terminal.read_until("reason, or Enter for none > ")
    terminal.type("not on a Friday\r")
    assert "not on a Friday" in ends(terminal, 1, "more: asterism show")


@pytest.mark.parametrize("keys", ["l\r", "later\r", "\x03", "\x04"], ids=["l", "later", "Ctrl-C", "Ctrl-D"])
def test_a_question_that_is_left_stays_open_and_is_asked_by_resume(terminals: Any, keys: str) -> None:
    terminal = run(terminals, "one")
    terminal.read_until(CHOICES)
    terminal.type(keys)
    said = ends(terminal, 3, "approve|edit|reject")
    assert "asterism answer " in said
    assert "waits for a person: Run ship on desk?" in said
    assert "subject" not in said, "it has just been shown"
    again = terminals("resume")
    again.read_until(CHOICES)
    again.type("a\r")
    ends(again, 0, "1.4 is live in eu")


def test_a_question_that_the_command_has_answered_is_not_asked(terminals: Any, folder: Path) -> None:
    terminal = run(terminals, "one")
    terminal.read_until(CHOICES)
    terminal.type("l\r")
    said = ends(terminal, 3, "approve|edit|reject")
    question = re.search(r"asterism answer (\S+) ", said)
    assert question
    said = ends(terminals("answer", question[1], "approve"), 0, "more: asterism show")
    assert "1.4 is live in eu" in said
    assert CHOICES not in said


def test_each_question_is_asked_once(terminals: Any) -> None:
    terminal = run(terminals, "two")
    assert '"1.4"' in terminal.read_until(CHOICES)
    terminal.type("l\r")
    assert '"2.0"' in terminal.read_until(CHOICES)
    terminal.type("a\r")
    said = ends(terminal, 3, "approve|edit|reject")
    assert "2.0 is live in eu" in said
    assert CHOICES not in said


def test_a_question_is_asked_while_other_tasks_run_and_they_go_on_meanwhile(terminals: Any, folder: Path) -> None:
    terminal = run(terminals, "beside")
    terminal.read_until(CHOICES)
    (folder / "gate").touch()
    terminal.type("a\r")
    said = ends(terminal, 0, "more: asterism show")
    assert "completed: 3" in said
    assert "1.4 is live" in said


def test_ctrl_c_at_a_question_leaves_only_the_question_and_the_next_one_pauses_the_run(terminals: Any, folder: Path) -> None:
    terminal = run(terminals, "beside")
    terminal.read_until(CHOICES)
    terminal.type("\x03")
    terminal.read_until("^C\r\n")
    terminal.process.send_signal(signal.SIGINT)
    terminal.read_until("pausing: ")
    (folder / "gate").touch()
    ends(terminal, 130, "resume with: asterism resume")


def test_an_answer_from_elsewhere_closes_the_question(terminals: Any) -> None:
    terminal = run(terminals, "one")
    shown = terminal.shown + terminal.read_until(CHOICES)
    elsewhere = terminals("answer", shown.split("run ")[1].split()[0], "approve", "--no-drive")
    assert elsewhere.process.wait(WITHIN_S) == 0
    ends(terminal, 0, "1.4 is live in eu")


def test_what_was_typed_before_a_question_is_no_answer_to_it(terminals: Any) -> None:
    terminal = run(terminals, "one")
    terminal.type("a\r")
    assert "(lines typed before this question are ignored)" in terminal.read_until(CHOICES)


def test_an_mcp_server_cannot_write_control_characters_or_lines_of_its_own_to_the_terminal(terminals: Any, folder: Path) -> None:
    server = f'command = ["{sys.executable}", "{RAW}", "evil"]'
    (folder / "fleet.toml").write_text(f'[[devices]]\nid = "evil"\nkind = "mcp"\n{server}\n', encoding="utf-8")
    (folder / "one.json").write_text('{"tasks": [{"task_id": "act", "device": "evil", "skill": "act"}]}', encoding="utf-8")
    terminal = run(terminals, "one")
    assert "Name? ]0;owned [2J 31m asterism: all is well" in terminal.read_until("[r]espond  [r]eject  [l]ater > ")
    terminal.type("x" * 3000 + "\r")
    terminal.read_until("[r]espond  [r]eject  [l]ater > ")
    terminal.type("respond\r")
    terminal.read_until("answer, as JSON or text > ")
    terminal.type('{"other": 1}\r')
    assert "not accepted: the answer lacks n\\x1b]0;owned" in terminal.read_until("[r]espond  [r]eject  [l]ater > ")
    terminal.type("reject\r")
    terminal.read_until("reason, or Enter for none > ")
    terminal.type("\r")
    ends(terminal, 1, "more: asterism show")
    for sign in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\u202e"):
        assert sign not in terminal.shown
    assert not any(line.startswith("asterism: all is well") for line in terminal.shown.splitlines())
