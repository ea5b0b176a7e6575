"""The times of cron expressions: zones, clock changes, and what is refused."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from asterism.errors import InvalidInput
from asterism.service.schedules.cron import check_cron, in_words, last_until, next_after

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = BERLIN) -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def text(time: float | None, zone: str = BERLIN) -> str:
    assert time is not None
    return dt.datetime.fromtimestamp(time, tz=ZoneInfo(zone)).isoformat(sep=" ", timespec="minutes")


def test_a_time_is_of_its_zone() -> None:
    assert text(next_after("0 2 * * *", BERLIN, at("2026-11-23 01:59"))) == "2026-11-23 02:00+01:00"
    assert text(next_after("0 2 * * *", "America/New_York", at("2026-11-23 01:59")), "UTC") == "2026-11-23 07:00+00:00"
    assert text(next_after("0 2 * * 1-5", BERLIN, at("2026-11-20 02:00"))) == "2026-11-23 02:00+01:00"


@pytest.mark.parametrize(("seconds", "expected"), [(-1, "22"), (-0.5, "22"), (0, "23"), (0.5, "23"), (3600, "23")])
def test_the_last_time_may_be_now_and_is_never_to_come(seconds: float, expected: str) -> None:
    assert text(last_until("0 2 * * *", BERLIN, at("2026-11-23 02:00") + seconds)) == f"2026-11-{expected} 02:00+01:00"


def test_a_time_in_the_gap_of_clocks_comes_right_after_it() -> None:
    assert text(next_after("30 2 * * *", BERLIN, at("2026-03-28 12:00"))) == "2026-03-29 03:00+02:00"
    assert text(next_after("30 2 * * *", BERLIN, at("2026-03-29 12:00"))) == "2026-03-30 02:30+02:00"


def test_a_time_that_clocks_show_twice_comes_once() -> None:
    first = next_after("30 2 * * *", BERLIN, at("2026-10-25 00:00"))
    assert text(first) == "2026-10-25 02:30+02:00"
    assert first is not None
    assert text(next_after("30 2 * * *", BERLIN, first)) == "2026-10-26 02:30+01:00"


@pytest.mark.parametrize("alias", ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually", " @daily "])
def test_an_alias_is_accepted(alias: str) -> None:
    check_cron(alias, "UTC", 0.0)


def test_an_expression_is_said_in_words() -> None:
    assert in_words("0 2 * * *", "UTC") == "At 02:00 every day"


@pytest.mark.parametrize(
    ("cron", "zone", "problem"),
    [
        ("", "UTC", "write five fields"),
        ("2am", "UTC", "write five fields"),
        ("* * * * * *", "UTC", "write five fields"),
        ("@never", "UTC", "write five fields"),
        ("61 * * * *", "UTC", "bad minute"),
        ("0 0 30 2 *", "UTC", "bad day-of-month"),
        ("0 2 * * FUNDAY", "UTC", "bad day-of-week"),
        ("0 2 * * *", "Europe/Berlln", "there is no time zone 'Europe/Berlln'"),
        ("0 2 * * *", "../etc/passwd", "there is no time zone"),
        ("0 2 * * *", "", "there is no time zone ''"),
    ],
)
def test_a_wrong_expression_or_zone_is_refused_with_the_right_form(cron: str, zone: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        check_cron(cron, zone, 0.0)


def test_a_schedule_for_one_time_is_due_then_and_never_again() -> None:
    at = next_after("2026-12-01T08:00", "Europe/Berlin", 0.0)
    assert at == dt.datetime(2026, 12, 1, 7, tzinfo=dt.UTC).timestamp()
    assert next_after("2026-12-01T08:00", "Europe/Berlin", at) is None
    assert (last_until("2026-12-01T08:00", "Europe/Berlin", at - 1), last_until("2026-12-01T08:00", "Europe/Berlin", at)) == (None, at)
    assert next_after("2026-12-01T08:00+00:00", "Europe/Berlin", 0.0) == at + 3600
    assert in_words("2026-12-01T08:00", "Europe/Berlin") == "Once, at 2026-12-01 08:00"


def test_a_schedule_for_a_time_that_has_passed_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the schedule's time, 2026-12-01T08:00, has passed"):
        check_cron("2026-12-01T08:00", "UTC", 2e9)
