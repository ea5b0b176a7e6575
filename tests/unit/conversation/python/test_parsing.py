"""Values from words: what is not certain is no value, and the steps of reading grow with the message."""

from __future__ import annotations

import contextlib
import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from asterism.conversation.python.parsing import parse
from asterism.words.reading import chart, number_words
from asterism.words.reading.setting import Setting

SUNDAY = Setting(zone="Europe/Berlin", at=dt.datetime.fromisoformat("2026-11-22T10:00+01:00").timestamp())
MONDAY = Setting(zone="Europe/Berlin", at=dt.datetime.fromisoformat("2026-11-23T10:00+01:00").timestamp())


@pytest.mark.parametrize(
    "said",
    ["1,5 or 2", "not 5", "1e5", "5-7", "", "nine lives or 3", "1.2.3", "many", "no one", "one of us can't come", "two hours",
     "I am 40 years old", "4 or 5", "12 dollars", "5 plus me", "at least 8"],
)  # fmt: skip
@pytest.mark.parametrize("kind", [int, float, Decimal])
def test_an_ambiguous_number_is_rejected(kind: Any, said: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse(kind, said, 0)


@pytest.mark.parametrize(
    ("said", "number"),
    [("5", 5), ("five", 5), ("for 1,000 people, please", None), ("-5", -5), ("\u22125", -5), ("4, please", 4), ("yes,5", 5),
     ("twenty", 20), ("5.", 5), ("5,", 5), ("there are 5 of us.", 5), ("5k", 5000), ("two hundred", 200), ("thirty-two", 32),
     ("2 million", 2_000_000), ("a dozen", 12), ("twenty one", 21), ("ninety", 90), ("minus five", -5), ("it is 1,200", 1200)],
)  # fmt: skip
def test_one_plain_number_is_accepted(said: str, number: int | None) -> None:
    if number is None:
        with pytest.raises(ValueError, match="number"):
            parse(int, said, 0)
    else:
        assert parse(int, said, 0) == number


@pytest.mark.parametrize(
    ("said", "language", "number"),
    [
        ("12,50", "en", "12.50"),
        ("1,200.50", "en", "1200.50"),
        ("12.50", "de", "12.50"),
        ("1.200,50", "de", "1200.50"),
        ("1.200", "de", "1200"),
    ],
)
def test_digits_are_read_as_the_language_writes_them(said: str, language: str, number: str) -> None:
    assert parse(Decimal, said, Setting(language=language)) == Decimal(number)


@pytest.mark.parametrize(("said", "language"), [("1.200", "en"), ("1,200", "de")])
def test_digits_that_are_another_number_elsewhere_are_a_guess(said: str, language: str) -> None:
    with pytest.raises(ValueError, match=r"may mean|kann .* heißen"):
        parse(Decimal, said, Setting(language=language))


@pytest.mark.parametrize("kind", [int, float, Decimal])
def test_a_number_with_too_many_digits_is_rejected(kind: Any) -> None:
    with pytest.raises(ValueError, match="too long"):
        parse(kind, "1" + "0" * 400, 0)


def test_numbers_in_words_need_the_extra_and_the_refusal_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_words, "by_library", lambda *_: None)
    monkeypatch.setattr("asterism.conversation.python.parsing.has_library", lambda: False)
    with pytest.raises(ValueError, match=r"asterism-engine\[talk\]; write it in digits"):
        parse(int, "ninety", 0)
    assert parse(int, "twelve", 0) == 12


@pytest.mark.parametrize(
    ("said", "date"),
    [("two weeks from friday", "2026-12-11"), ("a week from friday", "2026-12-04"),
     ("3 days before friday", "2026-11-24"), ("the friday after tomorrow", "2026-11-27"), ("in a fortnight", "2026-12-07"),
     ("3.12.", "2026-12-03"), ("1.12.2026", "2026-12-01"), ("2026/12/01", "2026-12-01"), ("the 3rd", "2026-12-03"),
     ("Fri", "2026-11-27"), ("in two months", "2027-01-23"), ("friday 27th", "2026-11-27")],
)  # fmt: skip
def test_a_date_in_words_is_that_date(said: str, date: str) -> None:
    assert parse(dt.date, said, MONDAY) == dt.date.fromisoformat(date)


@pytest.mark.parametrize(
    "said",
    [
        "friday after next", "next friday", "last friday", "not friday", "I can't on friday", "friday 13th",
        "the day before tomorrow", "not tomorrow", "any day but tomorrow", "tomorrow or friday", "on 2026-12-01 or 2026-12-02",
        "12/03/2026", "next week", "end of month", "30 february", "tommorow", "friday, if it does not rain", "monday to friday",
        "some friday", "friday next week or so",
    ],
)  # fmt: skip
def test_what_is_no_certain_date_is_none(said: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse(dt.date, said, MONDAY)


@pytest.mark.parametrize(("said", "date"), [("friday after next", "2026-12-04"), ("next friday", "2026-11-27")])
def test_next_is_certain_when_it_means_one_day(said: str, date: str) -> None:
    assert parse(dt.date, said, SUNDAY) == dt.date.fromisoformat(date)


@pytest.mark.parametrize(
    ("said", "time"),
    [("7 p.m.", "19:00"), ("7 in the evening", "19:00"), ("2:30 in the afternoon", "14:30"), ("2.30pm", "14:30"), ("14h30", "14:30"),
     ("noon", "12:00"), ("ten past four pm", "16:10"), ("19:30", "19:30"), ("half past two in the afternoon", "14:30")],
)  # fmt: skip
def test_a_time_in_words_is_that_time(said: str, time: str) -> None:
    assert parse(dt.time, said, SUNDAY) == dt.time.fromisoformat(time)


@pytest.mark.parametrize("said", ["not 3pm", "25:00", "at 3", "half past two", "3pm or 4pm", "after 3pm", "around 15:00", "3 people"])
def test_what_is_no_certain_time_is_none(said: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse(dt.time, said, SUNDAY)


def test_today_is_that_of_the_time_zone() -> None:
    at = dt.datetime.fromisoformat("2026-11-23T20:00+00:00").timestamp()  # 05:00 of the 24th in Tokyo
    assert parse(dt.date, "today", Setting(zone="Asia/Tokyo", at=at)) == dt.date(2026, 11, 24)
    assert parse(dt.date, "today", Setting(at=at)) == dt.date(2026, 11, 23)
    assert parse(dt.datetime, "tomorrow 15:00", Setting(zone="Asia/Tokyo", at=at)).isoformat() == "2026-11-25T15:00:00+09:00"


@pytest.mark.parametrize("kind", [int, float, dt.date, dt.time, dt.datetime, list[str], list[int], bool])
@pytest.mark.parametrize("part", ["1,", "5 ", " ", "7 pm ", "and ", "in 5 "])
def test_a_hostile_message_is_read_in_bounded_steps(kind: Any, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    charts: list[chart.Chart] = []
    begin = chart.Chart.__init__

    def counted(self: chart.Chart, *given: Any) -> None:
        begin(self, *given)
        charts.append(self)

    monkeypatch.setattr(chart.Chart, "__init__", counted)
    with contextlib.suppress(ValueError):
        parse(kind, "a" + part * 5000 + "b", 0)
    assert sum(it.steps for it in charts) < 50_000
