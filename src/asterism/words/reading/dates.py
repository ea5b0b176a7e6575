"""Dates in words. The patterns are data of the language; this is what each of them means."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Callable
from typing import Any

from asterism.words.reading.chart import NESTED, Chart
from asterism.words.reading.patterns import Bindings
from asterism.words.reading.values import Reading

Found = tuple[dt.date, bool]
"""A date, and False for a guess."""
FAR_DAYS = 305
"""A day without a year that is as far ahead as this has probably just passed."""
SOON_DAYS = 3
"""A weekday as near as this is "this" rather than "next" for some people."""
MAX_STEPS = 4000
WEEKS_IN_DAYS = (8, 15)
"""Counts of days that mean one or two weeks to many: "in acht Tagen", "dentro de quince días"."""


class NoSuchDateError(ValueError):
    """The words name a date that does not exist; the message is the key of a sentence of the language."""


def dates_at(chart: Chart, at: int, *, asked: bool = False) -> list[Reading]:
    """Return the dates that begin at a token, the longest first."""
    found: dict[int, Reading] = {}
    for table in ("date", "asked_date") if asked else ("date",):
        for key, end, bound in chart.grammar(table, at):
            if end in found and not (found[end].why or (table == "date" and not found[end].sure)):
                continue
            try:
                value, sure = (_MEANINGS.get(key) or _holiday(key))(chart, bound)
            except NoSuchDateError as error:
                text = chart.text[chart.tokens[at].start : chart.tokens[end - 1].end]
                found[end] = Reading(kind="date", start=at, end=end, why=chart.words.text(str(error), date=text))
            except (ValueError, OverflowError):
                continue
            else:
                is_in_words = key == "day_of_month" and not any(it.kind == "number" for it in chart.tokens[at:end])  # "the first"
                sure = sure and table == "date" and value >= chart.setting.today and not is_in_words
                role = "" if table == "date" else "asked"
                found[end] = Reading(kind="date", value=value, start=at, end=end, sure=sure, unit=key, role=role)
    return sorted(found.values(), key=lambda it: -it.end)


def date_parts_at(chart: Chart, at: int) -> list[Reading]:
    """Return what begins at a token and is about a day without naming it ("next week")."""
    return [Reading(kind="part", value="date", start=at, end=end, unit=key) for key, end, _ in chart.grammar("date_parts", at)]


def whole_at(chart: Chart, at: int) -> list[Reading]:
    """Return spans of days that begin at a token: a whole month, or one single day."""
    found = []
    for key, end, bound in chart.grammar("whole", at):
        if key == "month":
            first, _ = _day_month(chart, {"day": 1, "month": bound["month"]})
            if bound["month"] == chart.setting.today.month:
                continue
            last = first.replace(day=calendar.monthrange(first.year, first.month)[1])
            found.append(Reading(kind="span", value=(first, last), start=at, end=end))
        elif key == "one_day":
            day: Reading = bound["date"]
            found.append(Reading(kind="span", value=(day.value, day.value), start=at, end=end, sure=day.sure))
    return found


# -- meanings --------------------------------------------------------------------------------------


def _days(count: int) -> Callable[[Chart, Bindings], Found]:
    return lambda chart, _: (chart.setting.today + dt.timedelta(days=count), True)


def _upcoming(chart: Chart, weekday: int, after: dt.date | None = None) -> dt.date:
    start = after or chart.setting.today
    return start + dt.timedelta(days=(weekday - start.weekday()) % 7 or 7)


def _weekday(chart: Chart, bound: Bindings) -> Found:
    return _upcoming(chart, bound["weekday"]), bound["weekday"] != chart.setting.today.weekday()


def _next_weekday(chart: Chart, bound: Bindings) -> Found:
    today, first = chart.setting.today, _upcoming(chart, bound["weekday"])
    monday = today + dt.timedelta(days=7 - today.weekday())
    if first >= monday:
        return first, (first - today).days > SOON_DAYS
    return first + dt.timedelta(days=7), False


def _coming_weekday(chart: Chart, bound: Bindings) -> Found:
    return _upcoming(chart, bound["weekday"]), True


def _weekday_of_next_week(chart: Chart, bound: Bindings) -> Found:
    today = chart.setting.today
    monday = today + dt.timedelta(days=7 - today.weekday())
    is_plain = chart.words.week_starts == "monday" or today.weekday() != 6  # noqa: PLR2004 - on a Sunday the next week is another one for some
    return monday + dt.timedelta(days=bound["weekday"]), is_plain


def _weekday_after_next(chart: Chart, bound: Bindings) -> Found:
    first, sure = _next_weekday(chart, bound)
    return _upcoming(chart, bound["weekday"]) + dt.timedelta(days=7), sure or first == _upcoming(chart, bound["weekday"])


def _last_weekday(chart: Chart, bound: Bindings) -> Found:
    return _upcoming(chart, bound["weekday"]) - dt.timedelta(days=14 if bound["weekday"] == chart.setting.today.weekday() else 7), False


def add(start: dt.date, count: Any, unit: str) -> dt.date:
    """Return a date some units later.

    Raises:
        ValueError: the unit is shorter than a day, or the count is too large or no whole number.
    """
    if count != int(count) or abs(count) > MAX_STEPS:
        raise ValueError("not a number of days")
    count = int(count)
    if unit in ("month", "year"):
        months = start.year * 12 + start.month - 1 + count * (12 if unit == "year" else 1)
        year, month = months // 12, months % 12 + 1
        return dt.date(year, month, min(start.day, calendar.monthrange(year, month)[1]))
    return start + dt.timedelta(days=count * {"day": 1, "week": 7, "fortnight": 14}.get(unit, _none()))


def _none() -> int:
    return 10**10  # an unknown unit overflows every date


def _ahead(chart: Chart, bound: Bindings) -> Found:
    is_plain = bound["n"] not in WEEKS_IN_DAYS or bound["unit"] != "day" or chart.words.week_starts != "monday"
    return add(chart.setting.today, bound["n"], bound["unit"]), is_plain


def _after(_: Chart, bound: Bindings) -> Found:
    return add(bound["date"].value, bound["n"], bound["unit"]), bound["date"].sure


def _before(_: Chart, bound: Bindings) -> Found:
    return add(bound["date"].value, -bound["n"], bound["unit"]), bound["date"].sure


def _beside(days: int) -> Callable[[Chart, Bindings], Found]:
    def found(chart: Chart, bound: Bindings) -> Found:
        value = bound["date"].value + dt.timedelta(days=days)
        return value, bound["date"].sure and value > chart.setting.today

    return found


def _weekday_after(chart: Chart, bound: Bindings) -> Found:
    return _upcoming(chart, bound["weekday"], bound["date"].value), bound["date"].sure


def _nth_weekday(chart: Chart, bound: Bindings) -> Found:
    first, sure = _day_month(chart, {**bound, "day": 1})
    if (first - chart.setting.today).days > FAR_DAYS and first.month == chart.setting.today.month:
        first, sure = chart.setting.today.replace(day=1), False
    ahead = (bound["weekday"] - first.weekday()) % 7 + 7 * (bound["ordinal"] - 1)
    if bound["ordinal"] > 5 or ahead >= calendar.monthrange(first.year, first.month)[1]:  # noqa: PLR2004 - weeks
        raise NoSuchDateError("no_place")
    return first + dt.timedelta(days=ahead), sure


def _day_of_month(chart: Chart, bound: Bindings) -> Found:
    day, today = int(bound.get("ordinal") or bound.get("day") or 0), chart.setting.today
    for months in range(3):
        first = add(today.replace(day=1), months, "month")
        if day <= calendar.monthrange(first.year, first.month)[1] and first.replace(day=day) >= today:
            return first.replace(day=day), first.replace(day=day) != today
    raise NoSuchDateError("no_date")


def _day_of_next_month(chart: Chart, bound: Bindings) -> Found:
    return add(chart.setting.today.replace(day=1), 1, "month").replace(day=int(bound.get("ordinal") or bound.get("day") or 0)), True


def _day_month(chart: Chart, bound: Bindings) -> Found:
    day, month, year, today = bound["day"], bound["month"], bound.get("year"), chart.setting.today
    if not 1 <= day <= calendar.monthrange(year or 2024, month)[1]:
        raise NoSuchDateError("no_date")
    if year:
        return dt.date(year, month, day), True
    for ahead in range(9):  # the 29 February of the next leap year
        if day <= calendar.monthrange(today.year + ahead, month)[1] and (found := dt.date(today.year + ahead, month, day)) >= today:
            return found, (found - today).days < FAR_DAYS
    raise NoSuchDateError("no_date")


def _with_weekday(found: Found, weekday: int) -> Found:
    if found[0].weekday() != weekday:
        raise NoSuchDateError("other_weekday")
    return found


def _written(chart: Chart, bound: Bindings) -> Found:
    text = bound["written"]
    parts = [int(part) for part in re.findall(r"\d+", text)]
    if re.match(r"\d{4}", text):
        year, month, day = parts
    else:
        (one, two), year = parts[:2], parts[2] if len(parts) > 2 else 0  # noqa: PLR2004 - day, month, year
        separator = next(sign for sign in text if not sign.isdigit())
        is_plain = separator in chart.words.day_first or one > 12 or two > 12 or one == two  # noqa: PLR2004 - months
        day, month = (two, one) if two > 12 else (one, two)  # noqa: PLR2004 - months
        if two > 12 and separator in chart.words.day_first:  # noqa: PLR2004 - months
            day, month = one, two
        year = year + 2000 if 0 < year < 100 else year  # noqa: PLR2004 - a year in two digits
        if not is_plain:
            return _day_month(chart, {"day": day, "month": month, "year": year})[0], False
    if not 1 <= month <= 12:  # noqa: PLR2004 - months
        raise NoSuchDateError("no_date")
    found, sure = _day_month(chart, {"day": day, "month": month, "year": year})
    return found, sure


def _end_of_month(chart: Chart, _: Bindings) -> Found:
    today = chart.setting.today
    return today.replace(day=calendar.monthrange(today.year, today.month)[1]), False


def _last_day_of_month(chart: Chart, bound: Bindings) -> Found:
    if "month" in bound:
        first, sure = _day_month(chart, {"day": 1, "month": bound["month"]})
        if bound["month"] == chart.setting.today.month:
            first, sure = chart.setting.today, True
        return first.replace(day=calendar.monthrange(first.year, first.month)[1]), sure
    return _end_of_month(chart, bound)[0], True


def _fixed(month: int, day: int) -> Callable[[Chart, Bindings], Found]:
    return lambda chart, _: _day_month(chart, {"day": day, "month": month})


def _holiday(key: str) -> Callable[[Chart, Bindings], Found]:
    """Return the meaning of a key such as ``day_12_26``: the same day of every year."""
    month, day = key.removeprefix("day_").split("_")
    return _fixed(int(month), int(day))


def _christmas(chart: Chart, _: Bindings) -> Found:
    return _day_month(chart, {"day": 25, "month": 12})[0], False  # or the evening before


def _week_number(chart: Chart, bound: Bindings) -> Found:
    today, week = chart.setting.today, int(bound["number"])
    for year in (today.year, today.year + 1):
        found = dt.date.fromisocalendar(year, week, bound["weekday"] + 1)
        if found >= today:
            return found, True
    raise ValueError("a week that is over")


def _numbers_day_month(chart: Chart, bound: Bindings) -> Found:
    if not 1 <= bound["ordinal2"] <= 12:  # noqa: PLR2004 - months
        raise ValueError("no month")
    return _day_month(chart, {"day": bound["ordinal"], "month": bound["ordinal2"]})


_MEANINGS: dict[str, Callable[[Chart, Bindings], Found]] = {
    "today": _days(0),
    "tomorrow": _days(1),
    "after_tomorrow": _days(2),
    "yesterday": _days(-1),
    "before_yesterday": _days(-2),
    "weekday": _weekday,
    "coming_weekday": _coming_weekday,
    "next_weekday": _next_weekday,
    "weekday_of_next_week": _weekday_of_next_week,
    "weekday_after_next": _weekday_after_next,
    "last_weekday": _last_weekday,
    "weekday_in_a_week": lambda chart, bound: (_upcoming(chart, bound["weekday"]) + dt.timedelta(days=7), True),
    "ahead": _ahead,
    "after": _after,
    "counted_from": _after,
    "after_that_day": lambda chart, bound: (_after(chart, bound)[0], bound["n"] == 1 and bound["date"].sure),
    "before": _before,
    "day_after": _beside(1),
    "day_before": _beside(-1),
    "weekday_after": _weekday_after,
    "nth_weekday": _nth_weekday,
    "day_of_month": _day_of_month,
    "day_number": lambda chart, bound: _day_of_month(chart, {"ordinal": bound["day"]}),
    "day_of_next_month": _day_of_next_month,
    "day_month": _day_month,
    "numbers_day_month": _numbers_day_month,
    "weekday_day_month": lambda chart, bound: _with_weekday(_day_month(chart, bound), bound["weekday"]),
    "weekday_day": lambda chart, bound: _with_weekday(_day_of_month(chart, bound), bound["weekday"]),
    "weekday_date": lambda chart, bound: _with_weekday(_written(chart, bound), bound["weekday"]),
    "weekday_of_week_number": _week_number,
    "written": _written,
    "end_of_month": _end_of_month,
    "last_day_of_month": _last_day_of_month,
    "last_day_of_year": _fixed(12, 31),
    "first_day_of_year": _fixed(1, 1),
    "christmas_eve": _fixed(12, 24),
    "christmas_day": _fixed(12, 25),
    "christmas": _christmas,
}


def _nested(chart: Chart, at: int) -> list[tuple[int, Any]]:
    return [(it.end, it) for it in dates_at(chart, at) if not it.why]


NESTED["date"] = _nested
