"""Whole journals on the command line: forked, moved as files, and forgotten."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import subprocess

import pytest

from tests.end_to_end.desk import Desk


def measured(desk: Desk) -> str:
    """A finished run: its id."""
    desk.do("run", desk.plan({"task_id": "a", "device": "desk", "skill": "measure"}), "--fleet", desk.fleet)
    return str(desk.runs()[0]["run"])


def test_a_fork_is_driven_on_and_shown_beside_its_origin(desk: Desk) -> None:
    origin = measured(desk)
    said = desk.do("fork", origin, "--at", "3").stdout.splitlines()
    fork = desk.runs()[0]["run"]
    assert said[0] == f"run {fork}  forked from {origin} at entry 3"
    assert "FINISH" in "\n".join(said)
    assert desk.performed() == ["a", "a"]
    shown = desk.do("show", fork).stdout
    assert f"forked from {origin} at entry 3" in shown
    assert "no differences" in shown
    assert json.loads(desk.do("show", fork, "--json").stdout)["origin"] == {"run": origin, "at": 3, "differences": []}


def test_a_fork_of_what_is_not_there_is_refused(desk: Desk) -> None:
    origin = measured(desk)
    assert "no entry 99" in desk.do("fork", origin, "--at", "99", code=2).stderr
    assert "there is no run 'nope'" in desk.do("fork", "nope", "--at", "1", code=2).stderr
    assert len(desk.runs()) == 1


def test_a_run_goes_to_another_database_as_a_file(desk: Desk) -> None:
    run = measured(desk)
    file, other = desk.folder / "run.jsonl", desk.folder / "other.db"
    assert desk.do("export", run, "--output", file).stdout == f"run {run}: 5 entries in {file}\n"
    assert desk.do("export", run).stdout == file.read_text(encoding="utf-8")
    assert "5 entries imported" in desk.do("import", file, "--database", other).stdout
    assert desk.do("log", run, "--database", other).stdout == desk.do("log", run).stdout
    assert "already exists" in desk.do("import", file, "--database", other, code=2).stderr
    assert desk.do("import", "none.jsonl", code=2).stderr == "asterism: none.jsonl: No such file or directory\n"


def test_a_run_is_exported_as_a_page_if_the_file_is_named_so(desk: Desk) -> None:
    desk.do("run", desk.plan({"task_id": "a", "device": "desk", "skill": "fail"}), "--fleet", desk.fleet, code=None)
    run = str(desk.runs()[0]["run"])
    page = desk.folder / "run.html"
    entries = desk.runs()[0]["seq"]
    assert desk.do("export", run, page).stdout == f"run {run}: {entries} entries in {page}\n"
    [shown] = json.loads(page.read_text(encoding="utf-8").split('id="runs">')[1].split("</script>")[0])
    assert (shown["run"], shown["parent"], len(shown["deltas"])) == (run, "", entries)
    assert shown["machine"]["name"] == "constellation agent"
    assert "ValueError" in "".join(log["text"] for log in shown["logs"].values())
    desk.do("export", run, "--no-logs", "--output", page)
    assert json.loads(page.read_text(encoding="utf-8").split('id="runs">')[1].split("</script>")[0])[0]["logs"] == {}
    assert page.stat().st_mode & 0o777 == 0o600


def test_an_exported_file_is_named_once(desk: Desk) -> None:
    run = measured(desk)
    file = desk.folder / "run.jsonl"
    assert "name the file once" in desk.do("export", run, file, "--output", file, code=2).stderr
    desk.do("export", run, file)
    assert desk.do("export", run).stdout == file.read_text(encoding="utf-8")


def test_a_journal_file_is_taken_in_whatever_its_texts_have_in_them(desk: Desk) -> None:
    text = "two\u2028lines, \u0085 ümlauts"
    desk.do("run", desk.plan({"task_id": "a", "device": "desk", "skill": "measure", "description": text}), "--fleet", desk.fleet)
    file, other = desk.folder / "run.jsonl", desk.folder / "other.db"
    desk.do("export", str(desk.runs()[0]["run"]), file)
    assert r"two\u2028lines, \u0085 \u00fcmlauts" in file.read_text(encoding="utf-8").replace(r"\\", "\\")
    assert "5 entries imported" in desk.do("import", file, "--database", other).stdout


def test_a_file_that_was_tampered_with_is_not_taken_in(desk: Desk) -> None:
    run = measured(desk)
    file, other = desk.folder / "run.jsonl", desk.folder / "other.db"
    desk.do("export", run, "--output", file)
    file.write_text(file.read_text(encoding="utf-8").replace("0.8", "0.9"), encoding="utf-8")
    said = desk.do("import", file, "--database", other, code=2).stderr
    assert ": checksum mismatch" in said
    assert len(said.splitlines()) == 1
    assert not other.exists()


def imported_with(desk: Desk, **fields: object) -> subprocess.CompletedProcess[str]:
    """What ``import`` says to a file in which the run has these fields, sealed as anybody can do it."""
    file, lines = desk.folder / "run.jsonl", ""
    for line in desk.do("export", measured(desk)).stdout.splitlines()[:-1]:
        content = json.loads(line)
        if "run" in content:
            content["run"] |= fields
        lines += json.dumps(content) + "\n"
    end = json.dumps({"sha256": hashlib.sha256(lines.encode()).hexdigest()})
    file.write_text(lines + end, encoding="utf-8")
    return desk.do("import", file, "--database", desk.folder / "other.db", code=None)


@pytest.mark.parametrize("fields", [{"run": "a\x1b]0;x\x07\nb"}, {"run": "../../x"}, {"created_at": 1e300}])
def test_a_file_with_an_id_or_a_time_that_none_has_is_one_clear_error(desk: Desk, fields: dict[str, object]) -> None:
    refused = imported_with(desk, **fields)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert [line.isprintable() for line in refused.stderr.splitlines()] == [True]
    assert "journal file, line 1: " in refused.stderr
    assert not (desk.folder / "other.db").exists()


def test_an_id_and_a_time_that_are_in_the_database_already_spoil_no_list(desk: Desk) -> None:
    measured(desk)
    desk.do(
        "run", desk.plan({"task_id": "b", "device": "desk", "skill": "measure", "requires_approval": True}), "--fleet", desk.fleet, code=3
    )
    with contextlib.closing(sqlite3.connect(desk.database)) as connection:
        connection.execute("UPDATE runs SET created_at = 1e300, session = 'a\x1b[2K\nb' WHERE status = 'ended'")
        connection.execute("UPDATE inquiries SET expires_at = 1e300")
        connection.commit()
    listed = desk.do("runs").stdout.splitlines()
    assert len(listed) == 2
    assert "invalid time (1e+300 s)" in listed[0]
    assert all(line.isprintable() for line in listed)
    assert "invalid time (1e+300 s)" in desk.do("inbox").stdout


LARGE = "9" * 30


def test_a_number_may_be_larger_than_any_that_is_stored(desk: Desk) -> None:
    run = measured(desk)
    assert run in desk.do("runs", "--limit", LARGE).stdout
    assert desk.do("log", run, "--after", LARGE).stdout == ""
    assert f"no entry {LARGE}" in desk.do("fork", run, "--at", LARGE, code=2).stderr
    assert desk.do("prune", "--keep-mb", "1e308").stdout == "0 runs deleted\n"
    assert desk.do("prune", "--older-than-days", "1e308").stdout == "0 runs deleted\n"


def test_pruning_asks_what_to_forget_and_forgets_it(desk: Desk) -> None:
    measured(desk)
    assert "choose what to delete" in desk.do("prune", code=2).stderr
    assert "--empty-outcome" not in desk.do("prune", "--help").stdout
    assert desk.do("prune", "--older-than-days", "1").stdout == "0 runs deleted\n"
    assert desk.do("prune", "--outcome", "failed").stdout == "0 runs deleted\n"
    assert desk.do("prune", "--outcome", "finished").stdout == "1 run deleted\n"
    assert desk.runs() == []


def test_pruning_at_a_time_when_all_runs_are_old_needs_a_clock_that_is_right(desk: Desk) -> None:
    measured(desk)
    with contextlib.closing(sqlite3.connect(desk.database)) as database, database:
        database.execute("UPDATE runs SET updated_at = updated_at - 40 * 86400")
    refused = desk.do("prune", "--older-than-days", "30", code=1).stderr
    assert "all runs are older than 30 days; nothing is deleted. If the clock is right, add --clock-is-right" in refused
    assert len(desk.runs()) == 1
    assert desk.do("prune", "--older-than-days", "50").stdout == "0 runs deleted\n"
    assert desk.do("prune", "--older-than-days", "30", "--clock-is-right").stdout == "1 run deleted\n"
