"""``asterism chat`` at a real terminal: what is shown, what is kept in its history, how one leaves."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.test_flows import FLOWS

BEHIND_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "asterism.cli", *sys.argv[1:]])
"""
UP = "\x1b[A"
WITHIN_S = 60.0


class Terminal:
    """A terminal, and a process before it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.shown = ""
        self.keys, screen = pty.openpty()
        there = {
            "ASTERISM_DATABASE": str(folder / "flows.db"),
            "ASTERISM_FLOWS_DIR": str(folder / "desk"),
            "TERM": os.environ.get("TERMINAL_KIND", "dumb"),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", BEHIND_A_TERMINAL, *arguments],
            cwd=folder, env={**os.environ, **there}, stdin=screen, stdout=screen, stderr=screen, start_new_session=True,
        )  # fmt: skip
        os.close(screen)

    def type(self, keys: str) -> None:
        os.write(self.keys, keys.encode())

    def read_until(self, shown: str) -> str:
        """What is shown from now on, until this is."""
        begin, deadline = len(self.shown), time.monotonic() + WITHIN_S
        while shown not in self.shown[begin:]:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.keys], [], [], 0.1)[0]:
                self.shown += os.read(self.keys, 65536).decode()
        return self.shown[begin:]

    def say(self, line: str, answer: str = "]\r\n") -> str:
        self.type(f"{line}\r")
        return self.read_until(f"{answer}> ")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, "chat", FLOWS, "--user", "ann")
    try:
        terminal.read_until("Type /help for commands.\r\n> ")
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.keys)


def test_a_person_at_a_terminal_sees_the_state_and_finds_what_was_typed_before_but_no_secret(terminal: Terminal) -> None:
    assert "What was it for?\r\n  [WAITING_FOR_INPUT]" in terminal.say("expense of 40 euros")
    terminal.say("the train \\", "")
    assert "Which account shall it go to?" in terminal.say("to Rome")
    assert "DE1234567890" not in terminal.say("DE1234567890"), "a secret is not shown while it is typed"
    assert "[WAITING_FOR_APPROVAL]" in terminal.shown
    terminal.type(UP)
    terminal.read_until("to Rome")
    terminal.type(f"{UP}{UP}")
    terminal.read_until("expense of 40 euros")
    terminal.type("\x15")
    history = terminal.say("/history", "(yes/no)\r\n")
    assert "ann: the train to Rome\r\n" in history.replace("\r\r", "\r")
    assert "ann: [secret]\r\n" in history
    assert "amount: 40" in terminal.say("/fields", "iban: •••\r\n")
    assert "DE1234567890" not in terminal.shown
    assert "[CANCELLED]" in terminal.say("/cancel")


def test_a_yes_that_was_typed_before_an_approval_was_shown_is_no_answer_to_it(terminal: Terminal) -> None:
    terminal.type("leave\r2026-03-10\r2026-03-12\rskip\ryes\ryes\r")
    shown = terminal.read_until("(lines typed before this question are ignored)\r\n> ")
    assert "Request leave from 2026-03-10 to 2026-03-12?" in shown, "other questions take what was typed ahead"
    assert "[COMPLETED]" in terminal.say("yes")


def test_ctrl_c_leaves_at_once_and_leaves_the_conversation_open(terminal: Terminal, tmp_path: Path) -> None:
    terminal.say("book")
    terminal.type("4\x03")
    terminal.read_until("asterism: interrupted")
    assert terminal.process.wait(WITHIN_S) == 130
    again = Terminal(tmp_path, "chat", FLOWS, "--user", "ann")
    try:
        assert "For how many?" in again.read_until("]\r\n> ")
    finally:
        again.process.kill()
        again.process.wait()
        os.close(again.keys)


WORK = """
import asyncio
from pathlib import Path
from asterism.conversation.python import AgentStatus, StandardAgent, flowagent


@flowagent(triggers=["work"], description="Work")
class Work(StandardAgent):
    async def on_running(self, msg):
        Path("begun").touch()
        while not Path("open").exists():
            await asyncio.sleep(0.02)
        if self.metadata.setdefault("step", msg.get_text()) == msg.get_text():
            return self.make_result(AgentStatus.WAITING_FOR_INPUT, "Half of it is done. Go on?")
        return self.make_result(AgentStatus.COMPLETED, "All of it is done.")
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "work.py").write_text(WORK, encoding="utf-8")
    terminal = Terminal(tmp_path, "chat", "work.py", "--user", "ann")
    try:
        terminal.read_until("Type /help for commands.\r\n> ")
        terminal.type("work\r")
        deadline = time.monotonic() + WITHIN_S
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < deadline, terminal.shown
            time.sleep(0.02)
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.keys)


def test_ctrl_c_while_the_agent_works_pauses_after_the_handler(worker: Terminal, tmp_path: Path) -> None:
    worker.type("\x03")
    worker.read_until("pausing: the running handler finishes first; press Ctrl-C again to stop now")
    (tmp_path / "open").touch()
    assert "[PAUSED]" in worker.read_until("paused; nothing is lost. Continue with the same command, or with: asterism resume ")
    assert worker.process.wait(WITHIN_S) == 130
    again = Terminal(tmp_path, "chat", "work.py", "--user", "ann")
    try:
        again.read_until("[PAUSED]\r\n> ")
        assert "Half of it is done. Go on?" in again.say("resume")
        assert "All of it is done." in again.say("yes")
    finally:
        again.process.kill()
        again.process.wait()
        os.close(again.keys)


def test_a_second_ctrl_c_stops_at_once(worker: Terminal) -> None:
    worker.type("\x03")
    worker.read_until("press Ctrl-C again to stop now")
    worker.type("\x03")
    worker.read_until("asterism: interrupted")
    assert worker.process.wait(WITHIN_S) == 130
