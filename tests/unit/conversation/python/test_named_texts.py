"""Texts that a message gives by name, and values of other fields in the answer to the question for a text."""

from __future__ import annotations

import datetime as dt
from typing import ClassVar

import pytest

from asterism.conversation.python import InputField, StandardAgent
from tests.support.conversation_harness import talk


class Report(StandardAgent):
    requires_approval = True
    triggers: ClassVar[list[str]] = ["report"]
    folder: str = InputField("Of which folder?")
    month: str = InputField("Of which month?", pattern=r"\d{4}-\d\d", words=["period"])
    email: str = InputField("To whom?", pattern=r"\S+@\S+\.\w+")
    most: int | None = InputField("How many files at most?")


class Plain(StandardAgent):
    triggers: ClassVar[list[str]] = ["report"]
    folder: str = InputField("Of which folder?")
    month: str = InputField("Of which month?", words=["for {}"])
    day: dt.date = InputField("On which day?")


BOTH = {"folder": "data", "month": "2026-11"}


@pytest.mark.parametrize(
    "text",
    [
        "folder: data, month: 2026-11",
        "folder = data; month = 2026-11",
        "folder: data month: 2026-11",
        "folder data, month 2026-11",
        "folder data period 2026-11",
        "of folder data for 2026-11",
        "the folder is data and the month is 2026-11",
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_one_message_gives_several_texts_by_their_names(text: str, *, is_first: bool) -> None:
    turn = talk(Report, *([f"report {text}"] if is_first and " is " not in text else ["report", text]))[1][-1]
    assert (turn.fields, turn.raw_message) == (BOTH, "To whom?")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("of folder data for 2026-11", BOTH),
        ('folder "my data", month 2026-11', {"folder": "my data", "month": "2026-11"}),
        ("folder: ./data, day: 2026-11-27", {"folder": "./data", "day": "2026-11-27"}),
        ("folder ./data on 2026-11-27", {"folder": "./data", "day": "2026-11-27"}),
    ],
)
def test_a_field_of_text_needs_no_pattern(text: str, fields: dict[str, str]) -> None:
    assert talk(Plain, "report", text)[1][-1].fields == fields


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("folder data", "Shall I take this as the folder: 'data'? (yes/no)"),
        ("the folder big data", "Shall I take this as the folder: 'big data'? (yes/no)"),
        ("data for 2026-11", "Do you mean month: 2026-11, folder: data? (yes/no)"),
        ("not folder data, month 2026-11", "Do you mean month: 2026-11, folder: data? (yes/no)"),
        ("the notes of 2026-11 by Ann", "Shall I take this as the folder: 'the notes of 2026-11 by Ann'? (yes/no)"),
    ],
)
def test_what_may_be_meant_otherwise_is_read_back(text: str, shown: str) -> None:
    turn = talk(Report, "report", text)[1][-1]
    assert (turn.fields, turn.raw_message) == ({}, shown)


@pytest.mark.parametrize("text", ["data/2026-11", "backup.2026-11.csv", "the data folder of Ann", "docs"])
def test_any_other_answer_to_the_question_for_a_text_is_the_text(text: str) -> None:
    assert talk(Report, "report", text)[1][-1].fields == {"folder": text}


def test_a_value_that_only_the_pattern_of_another_field_fits_is_asked_about() -> None:
    turns = talk(Report, "report", "ann@example.org", "email: ann@example.org", "data")[1]
    which = 'Which one shall be ann@example.org? Write "folder: ann@example.org" or "email: ann@example.org".'
    assert (turns[1].fields, turns[1].raw_message) == ({}, f"{which} Of which folder?")
    assert turns[2].raw_message == "Of which folder?"
    assert turns[3].fields == {"folder": "data", "email": "ann@example.org"}


def test_values_of_two_patterns_leave_nothing_for_the_text() -> None:
    turn = talk(Report, "report", "2026-11 to ann@example.org")[1][-1]
    assert (turn.fields, turn.raw_message) == ({"month": "2026-11", "email": "ann@example.org"}, "Of which folder?")


def test_what_two_patterns_find_belongs_to_the_field_that_was_asked_for() -> None:
    class Months(StandardAgent):
        begin: str = InputField("From which month?", pattern=r"\d{4}-\d\d")
        end: str = InputField("Until which month?", pattern=r"\d{4}-\d\d")

    turns = talk(Months, "from 2026-01", "2026-01", "2026-05")[1]
    assert (turns[0].fields, turns[0].raw_message) == ({}, "From which month?")
    assert (turns[1].fields, turns[1].raw_message) == ({"begin": "2026-01"}, "Until which month?")
    assert turns[2].fields == {"begin": "2026-01", "end": "2026-05"}


GIVEN = ("report", "data", "2026-11", "ann@example.org", "5")


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("make it 2026-10", {"month": "2026-10"}),
        ("actually 2026-10", {"month": "2026-10"}),
        ("no, 2026-10", {"month": "2026-10"}),
        ("month 2026-10", {"month": "2026-10"}),
        ("bob@example.org, and make it 6", {"email": "bob@example.org", "most": 6}),
        ("the folder is docs and make it 2026-10", {"folder": "docs", "month": "2026-10"}),
        ("is it 2026-10?", {}),
        ("not 2026-10", {}),
    ],
)
def test_at_an_approval_a_pattern_finds_the_new_value_of_its_field(text: str, changed: dict[str, object]) -> None:
    before = {"folder": "data", "month": "2026-11", "email": "ann@example.org", "most": 5}
    assert talk(Report, *GIVEN, text)[1][-1].fields == before | changed


def test_a_correction_with_the_value_of_a_pattern_is_read_back_where_a_text_is_asked_for() -> None:
    turn = talk(Report, *GIVEN[:3], "actually 2026-10")[1][-1]
    assert turn.raw_message == "Shall I take this as the month: '2026-10'? (yes/no)"


@pytest.mark.parametrize("path", ["./data", "../data", "~/data", "/var/log", "data/reports"])
def test_a_path_is_no_alternative_that_makes_its_neighbor_doubtful(path: str) -> None:
    assert talk(Report, f"report of {path} for 2026-11")[1][-1].fields == {"month": "2026-11"}
    turn = talk(Plain, f"report {path} on 2026-11-27")[1][-1]
    assert turn.raw_message == "Do you mean day: Friday 2026-11-27? (yes/no)", "as with any other unknown word"
