"""Schedules at the command line: added, listed, paused, removed; and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.desk import Desk

REPORT = '''
from asterism import Constellation, skill

@skill(idempotent=True)
def count(folder: str) -> int:
    """Count the files of a folder."""
    return 1

report = Constellation("report", params={"folder": str})
report.task(count, folder=report.params.folder)
'''


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    (tmp_path / "report.py").write_text(REPORT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


def test_a_schedule_is_added_listed_paused_resumed_and_removed(desk: Desk) -> None:
    added = desk.do("schedule", "add", "0 2 * * *", "report.py:report", "--set", "folder=/tmp", "--zone", "Europe/Berlin")
    assert added.stdout.startswith("schedule report: At 02:00 every day (Europe/Berlin); the first run starts ")
    assert desk.do("schedule", "list").stdout.splitlines()[1].split()[:6] == ["report", "0", "2", "*", "*", "*"]
    times = desk.do("schedule", "next", "report", "--count", "2").stdout.splitlines()
    assert len(times) == 2
    assert all(" 02:00 CE" in it for it in times)
    assert desk.do("schedule", "pause", "report").stdout == "schedule report is paused\n"
    assert "paused" in desk.do("schedule", "list").stdout
    assert desk.do("schedule", "resume", "report").stdout == "schedule report is active\n"
    assert desk.do("schedule", "history", "report").stdout == "schedule report has not been due yet\n"
    started = desk.do("schedule", "run", "report").stdout
    assert started.startswith("run report-20")
    assert started.endswith(" starts with a server: asterism serve\n")
    assert started.split()[1] in desk.do("schedule", "history", "report").stdout
    assert desk.do("schedule", "remove", "report").stdout == "schedule report is removed\n"
    assert desk.do("schedule", "list").stdout == "no schedules yet; add one with `asterism schedule add`\n"


def test_d10_a_schedule_whose_file_is_broken_starts_no_run_and_says_why(desk: Desk, tmp_path: Path) -> None:
    desk.do("schedule", "add", "0 2 * * *", "report.py:report", "--set", "folder=/tmp")
    for broken, why in (("report = (", "report.py"), (REPORT.replace("folder", "place"), "folder")):
        (tmp_path / "report.py").write_text(broken, encoding="utf-8")
        refused = desk.do("schedule", "run", "report", code=2)
        assert (refused.stdout, why in refused.stderr, "Traceback" in refused.stderr) == ("", True, False), refused.stderr
    (tmp_path / "report.py").unlink()
    assert "report.py" in desk.do("schedule", "run", "report", code=2).stderr
    assert desk.do("schedule", "history", "report").stdout == "schedule report has not been due yet\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["0 2 * *", "report.py", "--set", "folder=x"], "cron expression '0 2 * *': write five fields"),
        (["61 2 * * *", "report.py", "--set", "folder=x"], "cron expression '61 2 * * *': bad minute"),
        (["@daily", "report.py", "--set", "folder=x", "--zone", "Mars/Base"], "there is no time zone 'Mars/Base'"),
        (["@daily", "report.py"], "the plan needs folder; give each with --set name=value"),
        (["@daily", "report.py", "--set", "fodler=x"], "the plan has no parameter 'fodler'; did you mean folder?"),
        (["@daily", "report.py", "--set", "folder=${due.week}"], "${due.week}: there is no such part of a due time; there are ${due.date}"),
        (["@daily", "rport.py"], "rport.py: there is no such file"),
        (["@daily", "say hello"], "a schedule of a request in words needs a name: --name"),
        (["@daily", "report.py", "--set", "folder=x", "--name", "a b"], "'a b' cannot be the name of a schedule"),
        (["@daily", "report.py", "--set", "folder=x", "--max-cost", "-1"], "--max-cost must be an amount of dollars above 0"),
    ],
)
def test_a_schedule_that_could_never_start_is_refused_and_nothing_is_written(desk: Desk, arguments: list[str], problem: str) -> None:
    refused = desk.do("schedule", "add", *arguments, code=2)
    assert problem in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not desk.database.exists()


def test_a_plan_that_no_fleet_can_run_is_refused_without_one_and_any_other_is_added(desk: Desk) -> None:
    draft = {"task_id": "draft", "device": "lab", "skill": "write"}
    show = {"task_id": "print", "device": "lab", "skill": "show", "when": "n > 1", "inputs": {"text": "${draft.text}"}}
    plan = desk.plan(draft, show)
    assert "draft is not upstream of it" in desk.do("schedule", "add", "@daily", plan, code=2).stderr
    assert not desk.database.exists()
    line = {"from": "draft", "to": "print", "condition": "words > 10"}
    desk.do("schedule", "add", "@daily", desk.plan(draft, show, dependencies=[line]))
    chosen_later = desk.plan({"task_id": "a", "name": "measure"}, name="later.json")
    desk.do("schedule", "add", "@daily", chosen_later)


def test_an_unknown_schedule_is_refused_with_those_there_are(desk: Desk) -> None:
    desk.do("schedule", "add", "@daily", "report.py", "--set", "folder=x")
    for command in ("next", "history", "run", "pause", "resume", "remove"):
        assert "there is no schedule 'reprt'; did you mean report?" in desk.do("schedule", command, "reprt", code=2).stderr
    twice = desk.do("schedule", "add", "@daily", "report.py", "--set", "folder=x", code=2)
    assert "there is a schedule 'report' already" in twice.stderr
