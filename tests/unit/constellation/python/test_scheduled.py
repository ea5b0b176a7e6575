"""The goal of a scheduled run, with its due time."""

from __future__ import annotations

import datetime as dt

import pytest

from asterism.constellation.model.documents import parse_plan
from asterism.constellation.python.goal import Goal
from asterism.constellation.python.scheduled import at_due_time
from asterism.errors import InvalidInput

NIGHT = dt.datetime(2026, 10, 31, 23, 30, tzinfo=dt.UTC).timestamp()
PLAN = parse_plan({"params": {"month": "str", "file": "str", "n": "int"}, "tasks": [{"task_id": "a", "skill": "s"}]})


def test_texts_among_the_parameters_have_the_due_time_in_the_zone_of_the_schedule() -> None:
    goal = Goal("t", "${due.date}", PLAN, {"month": "${due.month}", "file": "/in/${due.date}/${due.time}.csv ${params.n}", "n": 3})
    found = at_due_time(goal, "Europe/Berlin", NIGHT)
    assert found.params == {"month": "2026-11", "file": "/in/2026-11-01/2026-11-01T00:30:00+01:00.csv ${params.n}", "n": 3}
    assert (found.title, found.request) == ("t", "${due.date}")  # the name of a plan is its own
    assert at_due_time(goal, "UTC", NIGHT).params["month"] == "2026-10"


def test_a_request_in_words_has_the_due_time() -> None:
    found = at_due_time(Goal("Report of ${due.month}", "Report of ${due.month}"), "UTC", NIGHT)
    assert (found.title, found.request) == ("Report of 2026-10", "Report of 2026-10")


def test_a_part_of_a_due_time_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidInput) as refused:
        at_due_time(Goal("t", "t", PLAN, {"month": "${due.week}"}), "UTC", NIGHT)
    listed = "there are ${due.date}, ${due.month}, ${due.time}"
    assert str(refused.value) == f"${{due.week}}: there is no such part of a due time; {listed}"
