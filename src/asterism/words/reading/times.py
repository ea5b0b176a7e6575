"""Times of day in words. The patterns are data of the language; this is what each of them means."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec

from asterism.words.reading.chart import Chart
from asterism.words.reading.patterns import Bindings
from asterism.words.reading.values import Reading

HOURS = 24
NOON = 12
MORNING = 8
"""In a language of 24 hours "um 8" is in the morning; of an earlier hour people also say so in the afternoon."""


def times_at(chart: Chart, at: int, *, asked: bool = False) -> list[Reading]:
    """Return the times that begin at a token, the longest first."""
    found: dict[int, Reading] = {}
    for table in ("time", "asked_time") if asked else ("time",):
        for key, end, bound in chart.grammar(table, at):
            if end in found and not found[end].why:
                continue
            if key == "ahead":
                then = chart.setting.now + bound["duration"]
                if then.date() == chart.setting.today:
                    found[end] = Reading(kind="time", value=then.time().replace(second=0, microsecond=0), start=at, end=end, sure=False)
                continue
            read = _time(chart, key, bound)
            if read is not None and key == "to" and _is_like_a_range(chart, at, end):  # "5 to 7"
                if bound["n"] % 5:
                    continue
                found[end] = msgspec.structs.replace(_reading(chart, read, at, end), sure=False, others=())
                continue
            if read is not None:
                role = "" if table == "time" else "asked"
                found[end] = msgspec.structs.replace(_reading(chart, read, at, end), role=role)
                if key == "half_alone":
                    found[end] = msgspec.structs.replace(found[end], sure=False, unit=key)
    return sorted(found.values(), key=lambda it: -it.end)


def _is_like_a_range(chart: Chart, at: int, end: int) -> bool:
    links = {phrase[0] for phrase, key in chart.words.phrases["words"].items() if key == "to"}
    return chart.tokens[at].kind == "number" and end - at >= 3 and chart.tokens[at + 1].low in links  # noqa: PLR2004 - two numbers, and a word


def time_parts_at(chart: Chart, at: int) -> list[Reading]:
    """Return what begins at a token and is about a time without naming it ("in the morning")."""
    return [Reading(kind="part", value="time", start=at, end=end, unit=key) for key, end, _ in chart.grammar("time_parts", at)]


def _reading(chart: Chart, read: tuple[int, int, str], at: int, end: int) -> Reading:
    """Return the reading of an hour, a minute, and "am", "pm", "24" (it is sure) or nothing."""
    hour, minute, half = read
    if not (0 <= hour < HOURS and 0 <= minute < 60):  # noqa: PLR2004 - minutes
        return Reading(kind="time", start=at, end=end, why=chart.words.text("no_time", time=f"{hour}:{minute:02}"))
    if half in ("am", "pm"):
        if hour > NOON:
            is_right = half == "pm"
            return Reading(kind="time", value=dt.time(hour, minute), start=at, end=end, sure=is_right)
        hour = hour % NOON + (NOON if half == "pm" else 0)
        return Reading(kind="time", value=dt.time(hour, minute), start=at, end=end)
    if half == "24" or hour > NOON or hour == 0:
        return Reading(kind="time", value=dt.time(hour, minute), start=at, end=end)
    morning, later = dt.time(hour % NOON or NOON, minute), dt.time(hour % NOON + NOON if hour != NOON else 0, minute)
    early = hour < 7  # noqa: PLR2004 - nobody has appointments then
    first, second = (later, morning) if early else (morning, later)
    return Reading(kind="time", value=first, others=(second,), start=at, end=end, sure=False)


def _time(chart: Chart, key: str, bound: Bindings) -> tuple[int, int, str] | None:  # noqa: PLR0911 - one return for each form
    half = str(bound.get("half_day", ""))
    always = "24" if chart.words.clock == HOURS else ""
    if key in ("noon", "midnight"):
        return (NOON if key == "noon" else 0), 0, "24"
    if key in ("clock", "dotted", "four_digits"):
        hour, minute = bound[key]
        exact = hour.startswith("0") or key == "four_digits" or int(hour) >= NOON + 1
        return int(hour), int(minute), half or ("24" if exact or always else "")
    if key == "hundred":
        return bound["hundred"], 0, "24"
    hour = int(bound["hour"]) if "hour" in bound else int(bound.get("hundred", 0))
    if key == "full_hour" and "hundred" in bound:
        return hour, 0, "24"
    minute = _minutes_from(key, bound)
    if minute is None:
        return None
    total = (hour * 60 + minute) % (HOURS * 60) if 0 < hour <= HOURS or minute >= 0 else -1
    if hour > HOURS or total < 0:
        return hour, 0, half
    if minute < 0 and hour <= NOON:
        total = (hour * 60 + minute) if hour * 60 + minute >= 60 else (hour + NOON) * 60 + minute  # noqa: PLR2004 - an hour
    if hour == HOURS and not minute:
        return HOURS, 0, half
    exact = "24" if key in ("full_hour", "hour", "hour_minute") and always and hour >= MORNING else ""
    return total // 60, total % 60, half or exact


def _minutes_from(key: str, bound: Bindings) -> int | None:
    """Return the minutes that a pattern adds to its hour; None for a count that is no minute."""
    count: Any = bound.get("n", 0)
    if count != int(count) or not 0 <= count < 60:  # noqa: PLR2004 - minutes
        return None
    return {
        "past": int(count),
        "to": -int(count),
        "quarter_past": 15,
        "quarter_to": -15,
        "half_past": 30,
        "half_alone": 30,
        "half_to": -30,
        "before_half": -30 - int(count),
        "after_half": -30 + int(count),
        "quarter_of": -45,
        "three_quarters_of": -15,
        "hour_minute": int(bound.get("minute", count)),
    }.get(key, 0)
