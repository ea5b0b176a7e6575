"""A secret is typed at the terminal of whatever command drives its run, and what is asked after it, too: no other process would know it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end import command
from tests.end_to_end.test_chat import WITHIN_S, Terminal

TRIP = """
from asterism.conversation.python import AgentStatus, InputField, StandardAgent


class Trip(StandardAgent):
    requires_approval = True
    city: str = InputField("Where to?")
    pin: str = InputField("PIN?", secret=True)

    async def on_running(self, msg):
        return self.make_result(AgentStatus.COMPLETED, f"{self.city} is booked with a PIN of {len(self.pin)} characters.")
"""
FLEET = '[[devices]]\nid = "trips"\nkind = "flow"\nflow = "trip.py:Trip"\n'
PLAN = {"tasks": [{"task_id": "away", "device": "trips", "inputs": {"city": "Rome"}}]}
PIN = "8472-1993"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"trip.py": TRIP, "fleet.toml": FLEET, "plan.json": json.dumps(PLAN)}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def unattended(folder: Path, *arguments: str, code: int) -> str:
    """What a command says that has no terminal."""
    environment = {**os.environ, "ASTERISM_DATABASE": str(folder / "flows.db")}
    done = command.run(list(arguments), env=environment, timeout=WITHIN_S, cwd=folder)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def at_a_terminal(folder: Path, *arguments: str) -> Iterator[Terminal]:
    terminal = Terminal(folder, *arguments)
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.keys)


def is_told(terminal: Terminal, folder: Path, end: str) -> None:
    """Type the secret, then the yes that is asked after it, and see how the command ends."""
    terminal.read_until("PIN?\r\n> ")
    terminal.type(f"{PIN}\r")
    terminal.read_until("Go ahead? (yes/no)\r\n> ")
    terminal.type("yes\r")
    terminal.read_until(end)
    assert terminal.process.wait(WITHIN_S) == 0
    assert PIN not in terminal.shown
    assert [path for path in folder.rglob("*") if path.is_file() and PIN.encode() in path.read_bytes()] == []


def test_flow_run_asks_for_it_and_for_the_yes_after_it(folder: Path) -> None:
    with at_a_terminal(folder, "flow", "run", "trip.py:Trip", "--field", "city=Rome") as terminal:
        is_told(terminal, folder, "Rome is booked with a PIN of 9 characters.\r\n  [COMPLETED]")


@pytest.mark.parametrize(
    "begun",
    [("flow", "run", "trip.py:Trip", "--field", "city=Rome"), ("run", "plan.json", "--fleet", "fleet.toml")],
    ids=["a conversation", "a task that is one"],
)
def test_one_that_was_begun_without_a_terminal_names_the_command_that_asks_for_it(folder: Path, begun: tuple[str, ...]) -> None:
    said = unattended(folder, *begun, code=3)
    (line,) = [line.strip() for line in said.splitlines() if "asterism " in line]
    resume, told = line.split("   ", 1)
    assert told == "at a terminal, to type the secret: it is not stored"
    for listed in ("inbox", "show"):
        assert line in unattended(folder, listed, *([] if listed == "inbox" else [resume.split()[-1]]), code=0)
    run = resume.split()[-1]
    refused = unattended(folder, "answer", run, "respond", "--value", f'"{PIN}"', code=2)
    assert "asks for a secret, and answers are journaled; type it at a terminal, in `asterism resume " in refused

    with at_a_terminal(folder, *resume.split()[1:]) as terminal:
        is_told(terminal, folder, "more: asterism show")
        assert ": finished after " in terminal.shown


def test_whoever_leaves_finds_it_open_again(folder: Path) -> None:
    with at_a_terminal(folder, "run", "plan.json", "--fleet", "fleet.toml") as terminal:
        terminal.read_until("PIN?\r\n> ")
        terminal.type("\x04")
        shown = terminal.read_until("stored")
        assert terminal.process.wait(WITHIN_S) == 3
    (resume,) = [line.split("   ")[0].strip() for line in shown.splitlines() if "asterism resume" in line]
    with at_a_terminal(folder, *resume.split()[1:]) as terminal:
        is_told(terminal, folder, "more: asterism show")


def test_a_field_that_is_a_secret_is_not_taken_from_the_command_line(folder: Path) -> None:
    refused = unattended(folder, "flow", "run", "trip.py:Trip", "--field", f"pin={PIN}", code=2)
    assert "leave it out to be asked at the terminal" in refused
