"""``asterism --help`` loads the command line and nothing else."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from asterism.cli import main
from asterism.cli.output import complain
from tests.end_to_end import command

BARE = """
from cyclopts import App
app = App(name="bare", version="1", help="A bare app.")
@app.command
def hello(name: str) -> None:
    "Say hello."
    print(name)
app(["--help"], result_action="return_value")
"""
OURS = """
from asterism.cli import main
main(["--help"])
"""
MODULES = "\nimport sys; print(*sorted(sys.modules), sep='\\n', file=sys.stderr)"
ROUNDS = 15


def loaded(script: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", script + MODULES], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines())


def test_help_loads_nothing_that_a_bare_app_does_not() -> None:
    own = loaded(OURS) - loaded(BARE)
    assert own <= {"asterism", "asterism.cli", "asterism.cli.exit_codes", "asterism.errors"}


def test_help_names_every_command() -> None:
    done = command.run(["--help"], env=os.environ, timeout=60)
    for name in ("run", "plan", "runs", "show", "log", "resume", "cancel", "pause", "unpause", "inbox", "answer", "fleet", "diagram"):
        assert f" {name} " in done.stdout
        assert command.run([name, "--help"], env=os.environ, timeout=60).returncode == 0


def cpu_s(script: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "100"}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
def test_help_costs_at_most_a_third_more_than_a_bare_app() -> None:
    pairs = [(cpu_s(BARE), cpu_s(OURS)) for _ in range(ROUNDS)]
    bare, ours = (min(column) for column in zip(*pairs, strict=True))
    assert ours <= 1.3 * bare, f"{ours * 1000:.0f} ms beside {bare * 1000:.0f} ms"


def test_version_is_that_of_the_package() -> None:
    done = subprocess.run([sys.executable, "-m", "asterism.cli", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip().count(".") == 2


def test_without_a_standard_error_an_error_does_not_go_where_the_output_goes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["plan"]) == 2
    complain("the disk is slow")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("words", "told"), [
    (["plan", "x"], 'Command "plan" needs --fleet FILE: a request in words is planned with the skills of its devices.'),
        (["plan", "x", "--flet", "f"], "Unknown option: --flet. Did you mean --fleet?"),
        (["plan", "x", "--colour=f"], "Unknown option: --colour."),
    (["answer"], 'Command "answer" needs QUESTION.'),
    (["plan", "x", "--fleet"], 'Command "plan" parameter --fleet requires an argument.'),
])  # fmt: skip
def test_what_a_command_needs_and_was_not_given_is_named(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == f"asterism: {told} See `asterism {words[0]} --help`.\n"


def test_a_plan_without_its_fleet_names_a_device_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("tasks: [{task_id: ship, device: printer, skill: print}]", encoding="utf-8")
    assert main(["run", str(plan), "--database", str(tmp_path / "runs.db")]) == 2
    assert "needs --fleet FILE: the plan has tasks on printer. See" in capsys.readouterr().err
