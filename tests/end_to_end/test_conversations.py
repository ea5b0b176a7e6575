"""Some of the written conversations as ``asterism chat`` has them, each turn in a real process that is killed -9 when it has answered."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from calendar import day_name, month_name
from datetime import date
from pathlib import Path

import pytest

from tests.end_to_end.test_flows import FLOWS, Desk
from tests.simulation.conversations import Conversation, read

BY_TITLE = {it.title: it for it in read()}
SAMPLE = {
    "three fields in one answer": "a booking",
    "numbers that cannot be": "bad values",
    "asking what is meant": "help",
    "going back": "back",
    "a correction without a name": "a correction",
    "a second thought while something else is asked": "another",
    "a rule over two dates": "a rule over two fields, an approval",
    "a change brings a rule up": "a change at the approval that brings a rule up",
    "a change at the approval": "two changes, shown again",
    "words that are no clear yes": "an approval",
    "a denial with its reason": "a denial",
    "a pause while it collects": "a pause",
    "many misses tell the way out": "a cancel in words",
    "a cancel while it waits for approval": "a cancel",
    "another topic, left open, and back by its word": "a change of topic",
}
"""Title: what it is a sample of."""
WITHIN_S = 60.0


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return Desk(tmp_path)


def turn(desk: Desk, source: str, line: str, *, is_open: bool) -> tuple[list[str], str, str]:
    """What a process says when it begins, answers to a line, and is in then; it is killed when it has said so."""
    process = desk.start("chat", source, "--user", "ann")
    assert process.stdin is not None
    assert process.stdout is not None
    watchdog = threading.Timer(WITHIN_S, process.kill)
    watchdog.start()
    try:
        process.stdin.write(f"{line.replace('!', '/', 1) if line.startswith('!') else line}\n")
        process.stdin.flush()
        heard: list[str] = []
        while sum(it.startswith("  [") for it in heard) < 1 + is_open:
            heard.append(process.stdout.readline().rstrip("\n"))
            assert process.poll() is None, (heard, process.stderr and process.stderr.read())
        os.kill(process.pid, signal.SIGKILL)
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
    return heard[1:-2], heard[-2], heard[-1].strip()


def any_day(text: str) -> str:
    """A transcript without what differs from run to run and from day to day."""
    text = re.sub(r"\b(booking|leave)-[\w-]+", r"\1-N", text)
    return re.sub(rf"\d{{4}}-\d\d-\d\d|\d\d (?i:{'|'.join(month_name[1:])})", "DAY", text)


@pytest.mark.slow
@pytest.mark.parametrize("conversation", [BY_TITLE[title] for title in SAMPLE], ids=list(SAMPLE))
def test_it_goes_as_it_is_written_when_its_process_is_killed_between_every_two_turns(desk: Desk, conversation: Conversation) -> None:
    today = day_name[date.today().weekday()]  # noqa: DTZ011 - as the process reads it
    if any(today.lower() in line.lower() for line in conversation.lines):
        pytest.skip(f"somebody says {today}, which is today, and the answer asks which one is meant")
    source = "tests.simulation.conversation_agents" if conversation.agent == "Pizza" else FLOWS
    told = [f"== {conversation.title} · {conversation.agent}"]
    reply, is_open = "", False
    for line in conversation.lines:
        before, said, status = turn(desk, source, line, is_open=is_open)
        if is_open and "Back to where we were: " not in reply:
            assert before[0] == reply, "who comes next is told what was said last"
        told += [f"> {line}", said, status]
        reply, is_open = said, status not in ("[COMPLETED]", "[CANCELLED]", "[ERROR]") or "Back to where we were: " in said
    assert any_day("\n".join(told)) == any_day(conversation.text)
    if conversation.agent != "Desk":
        (run,) = json.loads(desk.do("runs", "--json"))
        history = json.loads(desk.do("show", run["run"], "--json"))["history"]
        assert [it["text"] for it in history if it["by"] == "ann"] == [line for line in conversation.lines if not line.startswith("!")]
