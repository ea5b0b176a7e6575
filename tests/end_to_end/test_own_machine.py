"""The commands and a run of a machine that only its program knows."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import asterism
from asterism.cli import main
from tests.support.ferry_machine import FERRY, Depart, registration


def asks(database: Path) -> str:
    """A run that waits for a person; nobody drives it."""

    async def begin() -> str:
        async with asterism.open(database, machines=[registration()]) as runtime:
            run = await runtime.submit(FERRY, Depart(parcels=("a",), asks=True), title="over the river", actor="ann")
            await runtime.drive(run)
            return run

    return asyncio.run(begin())


def outcome(database: Path, run_id: str) -> str:
    """How the run has ended when its program has gone on with it."""

    async def go_on() -> str:
        async with asterism.open(database, machines=[registration()]) as runtime:
            return (await runtime.drive(run_id)).outcome

    return asyncio.run(go_on())


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "a.db"
    monkeypatch.setenv("ASTERISM_DATABASE", str(path))
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """What a command returns and prints."""
    code = main(arguments)
    told = capsys.readouterr()
    return code, told.out.strip(), told.err.strip()


@pytest.mark.parametrize("command", ["show", "log", "why", "resume", "cancel", "unpause", "fork"])
def test_a_command_that_needs_the_machine_says_in_one_line_what_is_missing(
    command: str, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = asks(database)
    more = {"why": ["a"], "fork": ["--at", "1"]}.get(command, [])
    code, out, err = said(capsys, command, run, *more)
    use = "name its form in ASTERISM_FORMS, or use the program that registers it, with asterism.open(machines=[Form(…)])"
    assert (code, out, err) == (2, "", f"asterism: run {run}: its machine 'ferry' is not known here; {use}")
    assert outcome(database, run) == "", "nothing was written: it still waits"


def test_it_is_listed_and_exported_and_its_question_is_shown(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = asks(database)
    assert "over the river" in said(capsys, "runs")[1]
    assert "May it leave?" in said(capsys, "inbox")[1]
    assert "asterism journal" in said(capsys, "export", run)[1]


def test_an_answer_is_written_down_for_its_program(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = asks(database)
    code, out, err = said(capsys, "answer", run, "approve")
    assert (code, err) == (0, "")
    assert out.endswith(f"recorded; it takes effect when the program that registers its machine 'ferry' resumes run {run}")
    assert outcome(database, run) == "finished"


def test_what_goes_on_with_it_is_its_program(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = asks(database)
    assert said(capsys, "pause", run)[1].endswith("Resume with: the program that registers its machine 'ferry'")
    said(capsys, "answer", run, "approve")
    assert "takes effect with: the program that registers its machine 'ferry'" in said(capsys, "inbox")[1]


def test_resuming_all_runs_leaves_it_alone_and_says_so(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = asks(database)
    assert asyncio.run(epoch(database, run)) == 1
    code, out, err = said(capsys, "resume")
    assert (code, err) == (0, "")
    assert out.startswith(
        f"skipped: run {run}: its machine 'ferry' is not known here; name its form in ASTERISM_FORMS, or use the program that registers it"
    )
    assert asyncio.run(epoch(database, run)) == 1


async def epoch(database: Path, run_id: str) -> int:
    async with asterism.open(database) as runtime:
        return (await runtime.store.run(run_id)).epoch


def test_commands_know_a_form_of_an_installed_package_that_the_settings_name(database: Path, tmp_path: Path) -> None:
    run, info = asks(database), tmp_path / "site" / "ferry-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ferry\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[asterism.forms]\nferry = ferry_form:FORM\n", encoding="utf-8")
    (info.parent / "ferry_form.py").write_text(
        "from tests.support.ferry_machine import registration\nFORM = registration()\n", encoding="utf-8"
    )
    own = {"ASTERISM_DATABASE": str(database), "PYTHONPATH": f"{info.parent}:{Path(__file__).parents[2]}"}

    def done(forms: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **own, "ASTERISM_FORMS": forms}
        return subprocess.run(
            [sys.executable, "-m", "asterism.cli", *arguments], env=environment, capture_output=True, text=True, check=False
        )

    assert "over the river" in done("ferry", "show", run).stdout
    assert done("ferry", "answer", run, "approve").returncode == 0
    assert "finished" in done("ferry", "show", run).stdout
    assert "its machine 'ferry' is not known here" in done("", "show", run).stderr
    refused = done("ferry, kettle", "show", run)
    assert (refused.returncode, refused.stderr) == (
        2,
        "asterism: ASTERISM_FORMS: no installed package has the form 'kettle'; there is ferry\n",
    )
