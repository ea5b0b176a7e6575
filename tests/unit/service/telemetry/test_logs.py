"""Log lines: their content, and when they are written."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from asterism.cli import main
from asterism.engine.control.run_control import Cancel
from asterism.engine.kernel.machine import kind_of
from asterism.errors import InvalidInput
from asterism.service.telemetry.logs import LogWriter, configure_logs
from asterism.service.telemetry.observer import Telemetry
from tests.support.constellation_harness import Agent
from tests.support.constellations import plan

LOOP = """from asterism.loop.python import OrchestrationLoop
async def look(handoff):
    raise OSError("foggy")
loop = OrchestrationLoop(plan=[{"worker": "look", "intent": "x"}], workers={"look": look})
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _unconfigured() -> Iterator[None]:
    ours = logging.getLogger("asterism")
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    ours.handlers.clear()
    ours.setLevel(logging.NOTSET)


def a_run() -> Agent:
    """``a`` succeeds, ``b`` fails, ``c`` is skipped."""
    agent = Agent(plan("a b c", "a>b b>c", inputs={"x": "TOP-SECRET"}))
    agent.ends("a", result="TOP-SECRET")
    agent.ends("b", error="raised")
    return agent


def tell(agent: Agent) -> None:
    telemetry = Telemetry(lambda _: agent.run, lambda: agent.now)
    telemetry.appended("r", agent.entries)
    telemetry.trouble("r", "the disk is full; trying again")
    telemetry.close()


def told(level: str) -> list[dict[str, Any]]:
    stream = io.StringIO()
    configure_logs(level, stream)
    tell(a_run())
    assert "TOP-SECRET" not in stream.getvalue()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_nothing_is_logged_if_logs_are_not_configured(capfd: pytest.CaptureFixture[str]) -> None:
    tell(a_run())
    assert capfd.readouterr() == ("", "")


def test_debug_has_a_line_for_every_transition_with_run_seq_and_effect() -> None:
    agent = a_run()
    lines = [line for line in told("debug") if line["level"] == "debug"]
    assert [(line["run"], line["seq"], line["event"]) for line in lines] == [("r", it.seq, kind_of(it.event)) for it in agent.entries]
    assert [line["effect_id"] for line in lines if line["event"] == "attempt_ended"] == ["r:2.0", "r:4.0"]
    assert lines[1]["asks_for"] == ["dispatch"]
    assert {"actor", "state", "timestamp"} <= lines[0].keys()


def test_info_has_a_line_for_the_end_of_every_task_and_of_the_run() -> None:
    lines = [line for line in told("info") if line["level"] == "info"]
    ends = {line["task"]: (line["status"], line.get("outcome"), line.get("code")) for line in lines if line["event"] == "task ended"}
    assert ends == {
        "a": ("COMPLETED", "completed", None),
        "b": ("FAILED", "raised", "raised"),
        "c": ("SKIPPED", None, "unsatisfied"),
    }
    assert [line["effect_id"] for line in lines if line.get("task") == "a"] == ["r:2.0"]
    assert (lines[-1]["event"], lines[-1]["outcome"]) == ("run ended", "failed")
    assert lines[-1]["tasks"] == {"COMPLETED": 1, "FAILED": 1, "SKIPPED": 1}


def test_an_attempt_that_is_retried_is_not_the_end_of_its_task() -> None:
    stream = io.StringIO()
    configure_logs("info", stream)
    agent = Agent(plan("a", retry={"max_attempts": 2}))
    agent.ends("a", error="raised")
    tell(agent)
    line = json.loads(stream.getvalue().splitlines()[0])
    assert (line["event"], line["status"], line["outcome"]) == ("attempt ended", "PENDING", "raised")


def test_a_noted_event_is_marked() -> None:
    stream = io.StringIO()
    configure_logs("debug", stream)
    agent = a_run()
    agent.entries = [agent.run.note(Cancel(), at=agent.now, actor="me", key="k", why="it has ended")]
    tell(agent)
    assert [json.loads(line).get("noted") for line in stream.getvalue().splitlines()] == [True, None]


def test_trouble_is_a_warning() -> None:
    assert [(line["level"], line["run"], line["message"]) for line in told("warning")] == [
        ("warning", "r", "the disk is full; trying again"),
    ]
    assert told("error") == []


def test_a_terminal_gets_words_and_no_json() -> None:
    stream = Terminal()
    configure_logs("info", stream)
    tell(a_run())
    assert "run ended" in stream.getvalue()
    assert '{"' not in stream.getvalue()


def test_an_unknown_level_is_rejected_by_name() -> None:
    with pytest.raises(InvalidInput, match="'loud'; use debug"):
        configure_logs("loud", io.StringIO())


def test_what_user_code_has_raised_is_a_line_among_the_others() -> None:
    stream = io.StringIO()
    configure_logs("info", stream)
    logging.getLogger("asterism.loop.python").info("%s failed", "r:1.0")
    logging.getLogger("asterism.loop.python").debug("too much")
    (line,) = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (line["event"], line["level"]) == ("r:1.0 failed", "info")


def test_the_commands_write_lines_where_the_environment_names_a_level(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logged.py").write_text(LOOP, encoding="utf-8")
    run = ["loop", "run", "logged.py:loop", "x", "--database", str(tmp_path / "runs.db")]
    assert main(run) == 1
    assert '"level"' not in capsys.readouterr().err
    monkeypatch.setenv("ASTERISM_LOG", "info")
    assert main(run) == 1
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert [line["event"].splitlines()[-1] for line in lines] == ["OSError: foggy", "run ended"]
    monkeypatch.setenv("ASTERISM_LOG", "loud")
    assert main(run) == 2
    assert "there is no log level 'loud'" in capsys.readouterr().err


def test_a_log_on_a_full_disk_drops_lines_and_raises_nothing() -> None:
    written = False
    with contextlib.suppress(OSError), Path("/dev/full").open("w", encoding="utf-8") as full:  # closing it fails, too
        configure_logs("info", full)
        LogWriter().trouble("r1", "no such loop")
        written = True
    assert written
