"""A terminal, real keys: Ctrl-C once pauses, twice stops now, and nothing is lost either way. Also the picture that moves."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.desk import Desk

CTRL_C = b"\x03"
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
GATE = {"task_id": "gate", "name": "wait", "device": "desk"}
AFTER = {"task_id": "after", "name": "deploy", "device": "server"}
THEN = [{"from": "gate", "to": "after"}]


class Terminal:
    """A terminal with one command in it."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self.screen = screen
        self.seen = ""

    def press(self, key: bytes) -> None:
        os.write(self.screen, key)

    def wait_for(self, words: str) -> None:
        """Read on until the words were on the screen."""
        until = time.monotonic() + 30
        while words not in self.seen:
            assert time.monotonic() < until, f"{words!r} never came:\n{self.seen}"
            assert self._read(), f"{words!r} never came:\n{self.seen}"

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read():
            pass
        return self.process.wait(timeout=30)

    def _read(self) -> bool:
        readable, _, _ = select.select([self.screen], [], [], 30)
        try:
            raw = os.read(self.screen, 65536) if readable else b""
        except OSError:  # nobody has it open any more
            return False
        self.seen += ANSI.sub("", raw.decode(errors="replace"))
        return bool(raw)


@contextmanager
def terminal(desk: Desk, *arguments: str | Path, gated: bool = True) -> Iterator[Terminal]:
    """A command in a terminal of its own, which is its controlling one: a key that interrupts reaches its foreground group."""
    screen, inside = os.openpty()
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    environment = {key: value for key, value in desk.environment(gated=gated).items() if key != "COLUMNS"}
    script = f'exec 3<>"{os.ttyname(inside)}"; exec "$@"'  # opening it makes it the controlling terminal of the new session
    process = subprocess.Popen(
        ["sh", "-c", script, "sh", *desk.argv(*arguments)],
        env=environment,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    os.close(inside)
    try:
        yield Terminal(process, screen)
    finally:
        with process:
            process.kill()
        os.close(screen)


def assert_gone(pid: int) -> None:
    """Bounded wait for the end of a process that is not our child."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([descriptor], [], [], 20)
        assert ended, f"process {pid} still works"
    finally:
        os.close(descriptor)


def test_the_picture_shows_progress_and_ends_with_what_became_of_it(desk: Desk) -> None:
    plan = desk.plan(GATE, AFTER, dependencies=THEN)
    with terminal(desk, "run", plan, "--fleet", desk.fleet) as shown:
        desk.reach()
        shown.wait_for("━━━━━━──────  50%")
        shown.wait_for("at the gate")
        desk.open_gate()
        assert shown.end() == 0
    last = shown.seen.rpartition("FINISH: finished after")[0].splitlines()[-6:]
    assert [line.split()[:4] for line in last if "deploy" in line] == [["●", "after", "deploy", "server"]]
    assert "FINISH: finished after" in shown.seen
    assert "more: asterism show" in shown.seen


def test_ctrl_c_once_lets_what_runs_end_and_says_how_to_go_on(desk: Desk) -> None:
    plan = desk.plan(GATE, AFTER, dependencies=THEN)
    with terminal(desk, "run", plan, "--fleet", desk.fleet) as shown:
        desk.reach()
        shown.press(CTRL_C)
        shown.wait_for("press Ctrl-C again to stop now")
        assert any(desk.runs()[0]["status"] == "paused" for _ in range(50))
        desk.open_gate()
        assert shown.end() == 130
    (run,) = desk.runs()
    assert f"paused; resume with: asterism resume {run['run']}" in shown.seen
    assert run["status"] == "paused"
    assert desk.performed() == ["gate"]
    assert desk.do("resume").stdout == f"run {run['run']} is paused; resume with: asterism resume {run['run']}\n"
    assert desk.performed() == ["gate"]
    assert "FINISH" in desk.do("resume", run["run"]).stdout
    assert desk.performed() == ["gate", "after"]


def test_ctrl_c_twice_stops_now_and_nothing_is_lost(desk: Desk) -> None:
    plan = desk.plan(GATE, AFTER, dependencies=THEN)
    with terminal(desk, "run", plan, "--fleet", desk.fleet) as shown:
        worker = desk.reach()
        shown.press(CTRL_C)
        shown.wait_for("press Ctrl-C again to stop now")
        shown.press(CTRL_C)
        assert shown.end() == 130
        assert_gone(worker)
    (run,) = desk.runs()
    assert f"stopped; nothing is lost. Resume with: asterism resume {run['run']}" in shown.seen
    assert run["status"] != "ended"
    assert "FINISH" in desk.do("resume", run["run"]).stdout
    lines = desk.log.read_text(encoding="utf-8").splitlines()
    assert [line.split()[0] for line in lines] == ["gate", "gate", "after"]
    assert lines[0] == lines[1], "an idempotent skill is redone under its key"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_another_signal_stops_at_once(desk: Desk, number: signal.Signals) -> None:
    with desk.start("run", desk.plan(GATE), "--fleet", desk.fleet, gated=True) as driver:
        worker = desk.reach()
        driver.send_signal(number)
        out, err = driver.communicate(timeout=60)
        assert driver.returncode == 130
    assert_gone(worker)
    assert "stopped; nothing is lost" in out
    assert err == "asterism: stopping\n"
    assert desk.do("resume").returncode == 0


def test_a_run_paused_from_another_process_goes_on_with_unpause(desk: Desk) -> None:
    plan = desk.plan(GATE, AFTER, dependencies=THEN)
    with desk.start("run", plan, "--fleet", desk.fleet, gated=True) as driver:
        desk.reach()
        (run,) = desk.runs()
        desk.do("pause", run["run"])
        desk.open_gate()
        out, _ = driver.communicate(timeout=60)
        assert driver.returncode == 130
    assert f"paused; resume with: asterism resume {run['run']}" in out
    assert desk.performed() == ["gate"]
    assert "is already paused" in desk.do("pause", run["run"]).stdout
    desk.do("unpause", run["run"])
    assert desk.performed() == ["gate", "after"]


def test_a_cancel_of_a_run_whose_process_was_killed_begins_nothing_again(desk: Desk) -> None:
    with desk.start("run", desk.plan(GATE, AFTER, dependencies=THEN), "--fleet", desk.fleet, gated=True) as driver:
        worker = desk.reach()
        driver.kill()
        driver.communicate(timeout=60)
    assert_gone(worker)
    (run,) = desk.runs()
    assert f"{run['run']}  interrupted" in desk.do("runs").stdout
    desk.fleet.unlink()  # nothing of it is needed to stop
    assert desk.do("cancel", run["run"]).stdout == f"run {run['run']} is cancelled\n"
    assert [row["outcome"] for row in desk.runs()] == ["cancelled"]
    assert desk.performed() == ["gate"]


def test_pausing_a_run_that_was_stopped_and_asks_nothing_says_that_it_starts_nothing(desk: Desk) -> None:
    with desk.start("run", desk.plan(GATE, AFTER, dependencies=THEN), "--fleet", desk.fleet, gated=True) as driver:
        desk.reach()
        driver.send_signal(signal.SIGTERM)
        driver.communicate(timeout=60)
    run = desk.runs()[0]["run"]
    said = desk.do("pause", run).stdout
    assert said == f"no process drives run {run}; the pause waits in its inbox. Resume with: asterism resume {run}\n"
    assert "FINISH" in desk.do("resume", run).stdout
