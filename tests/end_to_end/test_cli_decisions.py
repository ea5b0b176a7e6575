"""Plans that a person approves, rounds of a session, limits, and why: as a user types them."""

from __future__ import annotations

import json
import os

import pytest

from asterism.engine.kernel.guards import digest_of
from tests.end_to_end.desk import Desk
from tests.end_to_end.test_cli import REQUEST


def asked(desk: Desk) -> dict[str, object]:
    (found,) = json.loads(desk.do("inbox", "--json").stdout)
    assert isinstance(found, dict)
    return found


def test_a_plan_is_shown_as_a_picture_and_runs_after_a_yes(desk: Desk) -> None:
    said = desk.do("run", REQUEST, "--fleet", desk.fleet, "--approve-plan", code=3).stdout
    lines = [line.strip() for line in said.splitlines()]
    start = lines.index("waits for a person: Run this plan?")
    assert lines[start + 2 : start + 5] == ["●  task_001  measure  desk", "┆  if accuracy > 0.95", "●  task_002  deploy   server"]
    assert desk.performed() == []
    inquiry = asked(desk)["inquiry"]
    assert "●  task_001  measure  desk" in desk.do("inbox").stdout
    desk.do("answer", str(inquiry), "approve")
    assert desk.performed() == ["task_001"]
    (run,) = desk.runs()
    shown = [line.strip() for line in desk.do("show", run["run"]).stdout.splitlines()]
    planning = shown[shown.index("planning") + 1 :]
    assert "CONTINUE, waiting for approval  (planner)" in planning[0]
    assert any("approved, 3 changes" in line for line in planning)
    assert planning[-1] == "total: 1 question"


def test_a_plan_is_edited_by_hand_from_a_file_and_a_bad_one_leaves_the_question_open(desk: Desk) -> None:
    desk.do("run", REQUEST, "--fleet", desk.fleet, "--approve-plan", code=3)
    inquiry = str(asked(desk)["inquiry"])
    refused = desk.do("answer", inquiry, "edit", "--value", '{"tasks": []}', code=1)
    assert "there is nothing to do" in refused.stderr
    plan = desk.plan({"task_id": "only", "name": "measure", "device": "desk"})
    desk.do("answer", inquiry, "edit", "--value", f"@{plan}")
    assert desk.performed() == ["only"]


@pytest.mark.parametrize(
    ("value", "why"),
    [('{"accuracy": NaN}', "nan is not a JSON number"), ('{"accuracy": "\\ud800"}', "half a character"), ("[" * 99_999, "not JSON")],
)
def test_an_answer_that_a_journal_would_not_give_back_is_refused_before_it_is_written(desk: Desk, value: str, why: str) -> None:
    plan = desk.plan({"task_id": "a", "name": "measure", "device": "desk", "requires_approval": True})
    desk.do("run", plan, "--fleet", desk.fleet, code=3)
    inquiry = str(asked(desk)["inquiry"])
    said = desk.do("answer", inquiry, "edit", "--value", value, code=2).stderr
    assert why in said
    assert said.count("\n") == 1
    desk.do("answer", inquiry, "approve")
    assert desk.performed() == ["a"]


def test_words_that_are_not_unicode_are_one_line_and_nothing_is_written(desk: Desk) -> None:
    desk.do("run", REQUEST, "--fleet", desk.fleet, "--approve-plan", code=3)
    run, odd = str(asked(desk)["run"]), os.fsdecode(b"\xff")
    for words in (["cancel", run, "--reason", odd], ["answer", run, "reject", "--reason", odd]):
        assert desk.do(*words, code=2).stderr.count("\n") == 1
    assert asked(desk)["run"] == run


def test_a_rejected_plan_fails_where_nobody_knows_another(desk: Desk) -> None:
    desk.do("run", REQUEST, "--fleet", desk.fleet, "--approve-plan", code=3)
    said = desk.do("answer", str(asked(desk)["inquiry"]), "reject", "--reason", "not on a friday", code=1).stdout
    assert "said no: not on a friday" in said


def test_a_follow_up_is_the_next_round_of_the_session_with_the_same_fleet_and_options(desk: Desk) -> None:
    desk.do("run", REQUEST, "--fleet", desk.fleet, "--wall-limit-s", "500")
    (first,) = desk.runs()
    desk.do("follow", first["run"], "measure the accuracy on my desk")
    second = desk.runs()[0]
    assert (second["session"], second["outcome"]) == (first["run"], "finished")
    submitted = json.loads(desk.do("log", second["run"], "--json").stdout.splitlines()[0])["event"]
    assert submitted["options"] == {"wall_limit_s": 500.0}
    (before,) = submitted["previous_rounds"]
    assert (before["run"], before["outcome"], before["tasks"][0]["result"]) == (first["run"], "finished", {"accuracy": 0.8})
    assert f"session {first['run']}: follows {first['run']}" in desk.do("show", second["run"]).stdout
    assert f"(session {first['run']})" in desk.do("runs").stdout


def test_what_has_not_ended_is_not_followed(desk: Desk) -> None:
    desk.do("run", REQUEST, "--fleet", desk.fleet, "--approve-plan", code=3)
    (run,) = desk.runs()
    assert "has not ended" in desk.do("follow", run["run"], "measure the accuracy on my desk", code=2).stderr


def test_why_says_how_a_task_came_about_and_what_became_of_it(desk: Desk) -> None:
    desk.do("run", REQUEST, "--fleet", desk.fleet)
    (run,) = desk.runs()
    said = desk.do("why", run["run"], "task_002").stdout
    assert said.startswith("task_002: SKIPPED: accuracy > 0.95 is false")
    assert "added with the plan" in said
    assert "thought: Decomposed into 2 tasks" in said
    assert json.loads(desk.do("why", run["run"], "task_001", "--json").stdout)["reasons"][-1]["text"] == "completed: accuracy=0.8"
    assert "never had a task 'x'; it has task_001, task_002" in desk.do("why", run["run"], "x", code=2).stderr


def test_a_limit_can_be_raised_while_the_run_waits(desk: Desk) -> None:
    desk.do("run", REQUEST, "--fleet", desk.fleet, "--approve-plan", "--max-tokens", "10", code=3)
    (run,) = desk.runs()
    said = desk.do("resume", run["run"], "--max-tokens", "20", "--max-cost", "0.5", code=3).stdout
    assert "planning limit raised to 20 tokens and 0.5 dollars" in said


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("run", REQUEST, "--max-tokens", "0"), "--max-tokens must be above 0"),
        (("run", REQUEST, "--max-cost", "-1"), "--max-cost must be an amount of dollars above 0"),
        (("resume", "--max-cost", "1"), "--max-tokens and --max-cost apply to one run; give its id"),
    ],
)
def test_limits_that_are_none_are_refused_before_anything_is_written(desk: Desk, arguments: tuple[str, ...], why: str) -> None:
    more = ("--fleet", desk.fleet) if arguments[0] == "run" else ()
    assert why in desk.do(*arguments, *more, code=2).stderr
    assert not desk.database.exists()


HIDDEN = "ok\nrm -rf / \u001b[2K\u202etxt"


def guarded(desk: Desk, *arguments: str) -> list[str]:
    """Start a run whose tasks wait for approvals, and return the ids of their questions."""
    tasks = [
        {"task_id": f"t{at}", "name": "measure", "device": "desk", "description": it, "requires_approval": True}
        for at, it in enumerate(arguments)
    ]
    desk.do("run", desk.plan(*tasks), "--fleet", desk.fleet, code=3)
    return [it["inquiry"] for it in json.loads(desk.do("inbox", "--json").stdout)]


def test_a5_an_answer_prints_the_whole_request_before_it_is_given(desk: Desk) -> None:
    tail = "x" * 5000 + "; then delete the customers table"
    (question,) = guarded(desk, tail)
    said = desk.do("answer", question, "approve").stdout
    assert tail in said
    assert said.index(tail) < said.index("finished")
    assert desk.performed() == ["t0"]


def test_a5_all_answers_print_each_request_with_what_nobody_can_see_escaped(desk: Desk) -> None:
    guarded(desk, HIDDEN, "ok rm -rf / txt")
    run = json.loads(desk.do("inbox", "--json").stdout)[0]["run"]
    said = desk.do("answer", run, "approve", "--all").stdout
    assert r'"ok\nrm -rf / \u001b[2K\u202etxt"' in said
    assert "description  ok rm -rf / txt" in said
    assert "\u202e" not in said


def test_a5_the_inbox_has_the_digest_that_an_approval_names_beside_the_request(desk: Desk) -> None:
    guarded(desk, HIDDEN)
    found = asked(desk)
    assert found["digest"] == digest_of(found["subject"])


def test_a5_a_plan_is_shown_whole_where_it_is_decided_and_folded_in_a_list(desk: Desk) -> None:
    tail = "x" * 5000 + "; then delete the customers table"
    plan = desk.plan({"task_id": "a", "name": "measure", "device": "desk", "tips": [tail], "inputs": {"accuracy": tail}})
    said = desk.do("run", plan, "--fleet", desk.fleet, "--approve-plan", code=3).stdout
    assert "… 5,033 characters" in said
    assert tail in desk.do("inbox").stdout
    assert tail in desk.do("answer", str(asked(desk)["inquiry"]), "reject", code=1).stdout
