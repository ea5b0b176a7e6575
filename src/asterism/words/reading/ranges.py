"""Ranges: "from Monday to Friday" fills two fields, "from 9 to 11:30" a time and a duration."""

from __future__ import annotations

import calendar
import datetime as dt
from decimal import Decimal
from typing import Any

import msgspec

from asterism.words.reading.durations import SECONDS
from asterism.words.reading.fitting import hour_of, number_as_time
from asterism.words.reading.scan import Item, Scan, Wanted
from asterism.words.reading.values import Reading

Found = list[dict[str, Any]]
COUNTS = ("number", "duration", "money", "date")


def join_ranges(scan: Scan, items: list[Item]) -> Found:
    """Return the values that ranges give, and mark the items that they use; mark the ends of open ranges with their role."""
    found: Found = []
    for at, item in enumerate(items):
        if item.kind != "value" or item.dropped:
            continue
        if item.options[0].kind == "span":
            found += _span(scan, item)
            continue
        after = _joined(scan, items, at)
        if after is not None:
            found += _pair(scan, item, after, begins=_role_of(items, at) == "first")
        elif item.options[0].unit == "counted_from" and _pair_of(scan):  # "three days from Friday" may be as long, too
            item.options = [msgspec.structs.replace(it, sure=False) for it in item.options]
        elif item.low == "date" and (days := [it for it in found if type(it["value"]) is dt.date]):
            found += _other_end(scan, items, at, days[-2:])
        elif not item.role:
            role = _role_of(items, at) or _role_of_answer(scan, items, at)
            item.role = role
            if role == "last" and item.low in ("time", "number"):
                found += _until(scan, item)
            elif role == "last" and item.low in ("duration", "money"):
                item.dropped = "range"
            elif role == "back":
                found += _back(scan, item)
    return found + (_counted_days(scan, items) if not found else [])


def _other_end(scan: Scan, items: list[Item], at: int, days: Found) -> Found:
    """Return the end that a date after a range changes, as a guess: "20 to 23 December, no, to the 24th"; otherwise it is dropped."""
    item, (first, last) = items[at], (it["value"] for it in days)
    role = _role_of(items, at) or next(("last" for it in items[at - 1 : at] if "to" in it.classes), "")
    pair, reading = _pair_of(scan), _reading(item, "date")
    item.dropped = "two"
    if pair is None or reading is None or role not in ("first", "last"):
        for it in days:
            it["sure"] = False
        return []
    value = reading.value
    if reading.unit in DAYS_ONLY:
        value = (
            next((it for it in _same_days(value.day, first) if it > first), value) if role == "last" else _day_in(value.day, last) or value
        )
    if not (first <= value if role == "last" else value <= last):
        for it in days:
            it["sure"] = False
        return []
    item.dropped, item.kind, item.classes = "", "words", frozenset({"neutral"})
    return [{"field": pair[role == "last"].name, "value": value, "item": item, "sure": False}]


DAYS_ONLY = ("day_of_month", "day_number")
"""Patterns of a date that name neither its month nor its weekday."""


def _day_in(day: int, month: dt.date) -> dt.date | None:
    return month.replace(day=day) if day <= calendar.monthrange(month.year, month.month)[1] else None


def _same_days(day: int, start: dt.date) -> list[dt.date]:
    """Return the day in the month of a date and in the next one."""
    months = (start, (start.replace(day=1) + dt.timedelta(days=31)).replace(day=1))
    return [it for month in months if (it := _day_in(day, month)) is not None]


def _counted_days(scan: Scan, items: list[Item]) -> Found:
    """Return the range of "three days, starting on the 10th of December", as a guess."""
    values = [it for it in items if it.kind == "value" and not it.dropped]
    pair = _pair_of(scan)
    if pair is None or sorted(it.low for it in values) != ["date", "duration"]:
        return []
    start, length = sorted(values, key=lambda it: it.low)
    reading, days = _reading(start, "date"), length.options[0].value.total_seconds() / 86_400
    if reading is None or start.role not in ("", "first") or days != int(days) or days < 1:
        return []
    for item in values:
        item.kind, item.classes = "words", frozenset({"neutral"})
    one, two = sorted(values, key=lambda it: it.start)
    ends = (reading.value, reading.value + dt.timedelta(days=days - 1))
    return [{"field": it.name, "value": end, "item": one, "until": two, "sure": False} for it, end in zip(pair, ends, strict=True)]


def _pair_of(scan: Scan) -> tuple[Wanted, Wanted] | None:
    """Return the fields of a range of days, its start first; None if there are none."""
    return next(((scan.wanted[it.end_of], it) for it in scan.wanted.values() if it.end_of and it.kind == "date"), None)


def _joined(scan: Scan, items: list[Item], at: int) -> Item | None:
    """Return the other end of a range that begins with an item; None for none."""
    link = ""
    for item in items[at + 1 : at + 6]:
        if item.kind == "value" and not link and _is_same_day(items[at], item):  # "tuesday 24"
            continue
        if item.clause != items[at].clause and scan.tokens[item.start].low == "-":  # "at 10 - sorry, at 11"
            return None
        if item.kind == "value" and items[at].low == "time" and item.low == "number" and _is_counted(items, item):
            for other in (items[at], item):  # "at 10 - 2 people" may be a range, too
                other.options = [
                    msgspec.structs.replace(it, sure=False, unit=it.unit or AS_SAID * (it.kind == "time")) for it in other.options
                ]
            return None
        if item.kind == "value" and (not item.dropped or link in ("until", "-")):
            return item if link in ("until", "-") or (link == "and" and _are_neighbours(items[at], item)) else None
        if item.kind == "mark" and scan.tokens[item.start].low == "-":
            link = link or "-"
        elif "until" in item.classes or "to" in item.classes:
            link = "until"
        elif "and" in item.classes:
            link = link or "and"
        elif item.kind == "mark" and scan.tokens[item.start].low == ".":
            continue
        elif not ("neutral" in item.classes or (item.kind == "label" and link)):
            return None
    return None


AS_SAID = "said"
"""Unit of a time that the usual hours of a field do not make certain."""


def _is_counted(items: list[Item], item: Item) -> bool:
    """Return True for a number with the name of what it counts."""
    after = items[items.index(item) + 1 :][:1]
    return bool(after) and after[0].kind == "label" and after[0].side != "after"


def _are_neighbours(one: Item, two: Item) -> bool:
    if one.low != "date" or two.low != "date":
        return False
    first, last = one.options[0].value, two.options[0].value
    return first is not None and last is not None and (last - first).days == 1


def _is_same_day(one: Item, two: Item) -> bool:
    return one.low == two.low == "date" and one.options[0].value is not None and one.options[0].value == two.options[0].value


def _reading(item: Item, kind: str) -> Reading | None:
    return next((it for it in item.options if it.kind == kind and not it.why), None)


def _pair(scan: Scan, one: Item, two: Item, *, begins: bool) -> Found:
    """Return what a range with two ends gives; without fields for it, both ends are dropped."""
    last = _reading(two, "date")
    if last is not None:
        first = _reading(one, "date") or _reading(one, "number")
        ends = _dates(first, last) if first is not None else None
        found = _fill(scan, (one, two), *ends) if ends is not None else []
    elif two.low == "date":  # there is no such day, so the first one may be misread, too
        found = []
    elif _are_times(one, two):
        found = _times(scan, one, two, begins=begins)
    elif _are_counts(one, two):
        found = []
    else:
        return []
    for item in (one, two):
        item.dropped = "" if found else item.dropped or "range"
        if found:
            item.kind = "words"
            item.classes = frozenset({"neutral"})
    return found


def _are_counts(one: Item, two: Item) -> bool:
    same = {it.kind for it in one.options} & {it.kind for it in two.options}
    return (bool(same) and one.low in COUNTS) or (one.low == "number" and two.low in COUNTS)


def _are_times(one: Item, two: Item) -> bool:
    is_time = [_reading(item, "time") is not None for item in (one, two)]
    return any(is_time) and all(it or _reading(item, "number") is not None for it, item in zip(is_time, (one, two), strict=True))


def _dates(first: Reading, last: Reading) -> tuple[dt.date, dt.date, bool] | None:
    if first.kind == "number" or (
        first.kind == "date" and first.unit in ("day_of_month", "day_number") and last.unit not in ("day_of_month", "day_number")
    ):
        day = (
            int(first.value)
            if first.kind == "number" and first.value == int(first.value)
            else first.value.day
            if first.kind == "date"
            else 0
        )
        if not 1 <= day <= 31:  # noqa: PLR2004 - days
            return None
        if day <= last.value.day:
            return last.value.replace(day=day), last.value, last.sure
        return (first.value, last.value, False) if first.kind == "date" and first.value <= last.value else None
    start, end = first.value, last.value
    if end < start and last.unit in ("weekday", "coming_weekday"):
        end += dt.timedelta(days=7 * ((start - end).days // 7 + 1))
    return (start, end, first.sure and last.sure) if start <= end else None


def _fill(scan: Scan, items: tuple[Item, Item], start: Any, end: Any, sure: bool) -> Found:  # noqa: FBT001 - as read
    pair = _pair_of(scan)
    if pair is None:
        return []
    return [
        {"field": pair[0].name, "value": start, "item": items[0], "until": items[1], "sure": sure},
        {"field": pair[1].name, "value": end, "item": items[0], "until": items[1], "sure": sure},
    ]


def _span(scan: Scan, item: Item) -> Found:
    reading = item.options[0]
    first, last = reading.value
    found = _fill(scan, (item, item), first, last, reading.sure)
    if found:
        item.kind, item.classes = "words", frozenset({"neutral"})
    elif reading.value[0] == reading.value[1]:
        item.options = [Reading(kind="date", value=reading.value[0], start=item.start, end=item.end, sure=reading.sure)]
    else:
        item.dropped = "range"
    return found


def _times(scan: Scan, one: Item, two: Item, *, begins: bool) -> Found:
    start_field = next((it for it in scan.wanted.values() if it.kind == "time" and not it.end_of), None)
    if start_field is None:
        return []
    start, end = _time_of(start_field, one), _time_of(start_field, two)
    if start is None or end is None:
        return []
    if not start[1] and end[1]:  # "2-3pm": the hour of the end says which
        start = min(((it, True) for it in _both(one) if it < end[0]), key=lambda it: _minutes(it[0], end[0]), default=start)
    length = _minutes(start[0], end[0])
    other = next((it for it in scan.wanted.values() if it.kind == "time" and it.end_of == start_field.name), None)
    if length <= 0:
        return []
    sure = start[1] and end[1] and (begins or scan.asked is not start_field)  # "3 to 4" may mean at some time between
    if other is not None:
        return [
            {"field": start_field.name, "value": start[0], "item": one, "until": two, "sure": sure},
            {"field": other.name, "value": end[0], "item": one, "until": two, "sure": sure},
        ]
    counted = _length(scan, length)
    return (
        [
            {"field": start_field.name, "value": start[0], "item": one, "until": two, "sure": sure},
            {**counted, "item": one, "until": two, "sure": sure},
        ]
        if counted
        else []
    )


def _length(scan: Scan, minutes: int) -> dict[str, Any]:
    for field in scan.wanted.values():
        if field.kind == "duration":
            return {"field": field.name, "value": dt.timedelta(minutes=minutes)}
        if field.kind in ("whole", "number") and field.unit in SECONDS:
            return {"field": field.name, "value": Decimal(minutes * 60) / SECONDS[field.unit]}
    return {}


def _both(item: Item) -> list[dt.time]:
    if (reading := _reading(item, "time")) is not None:
        return [reading.value, *reading.others]
    number = _reading(item, "number")
    if number is None or number.value != int(number.value) or not 1 <= number.value < 24:  # noqa: PLR2004 - hours
        return []
    hour = int(number.value)
    return [dt.time(hour)] if hour > 12 else [dt.time(hour), dt.time((hour + 12) % 24)]  # noqa: PLR2004 - hours


def _time_of(field: Wanted, item: Item) -> tuple[dt.time, bool] | None:
    if (reading := _reading(item, "time")) is not None:
        return hour_of(field, reading) if reading.others else (reading.value, reading.sure)
    number = _reading(item, "number")
    return number_as_time(field, number.value) if number is not None else None


def _minutes(start: dt.time, end: dt.time) -> int:
    return (end.hour - start.hour) * 60 + end.minute - start.minute


def _role_of(items: list[Item], at: int) -> str:
    """Return the role of a value after "from", "until" or "back on"; empty for none."""
    for item in reversed(items[max(0, at - 3) : at]):
        if item.kind in ("value", "mark", "unknown") or item.clause != items[at].clause:
            return ""
        for name, role in (("back", "back"), ("until", "last"), ("from", "first")):
            if "up_to" in item.classes and items[at].low == "money":
                return ""
            if name in item.classes and "neutral" not in item.classes - {"used"}:
                return role
    return ""


def _role_of_answer(scan: Scan, items: list[Item], at: int) -> str:
    """Return the role of a time in "to noon", which answers how long; empty for none."""
    asks_length = scan.asked is not None and (scan.asked.kind == "duration" or scan.asked.unit in SECONDS)
    return "last" if asks_length and at == 1 and items[at].low == "time" and "to" in items[0].classes else ""


def _until(scan: Scan, item: Item) -> Found:
    """Return the length that "until half past four" gives, if the start is known; the item is dropped in any case."""
    field = next((it for it in scan.wanted.values() if it.kind == "time" and isinstance(it.given, dt.time)), None)
    end = _time_of(field, item) if field is not None and (item.low == "time" or scan.asked is not None) else None
    if item.low == "number" and (field is None or scan.asked is None or scan.asked.unit not in SECONDS):
        return []
    item.dropped = "range"
    if field is None or end is None:
        return []
    later = [it for it in _both(item) if it > field.given]
    length = _minutes(field.given, end[0] if end[1] or len(later) != 1 else later[0])
    counted = _length(scan, length) if length > 0 else {}
    if not counted:
        return []
    item.dropped, item.kind, item.classes = "", "words", frozenset({"neutral"})
    return [{**counted, "item": item, "sure": end[1]}]


def _back(scan: Scan, item: Item) -> Found:
    """Return the last day before the one on which somebody is back."""
    reading = _reading(item, "date")
    field = next((it for it in scan.wanted.values() if it.end_of and it.kind == "date"), None)
    if reading is None or field is None:
        item.dropped = "range"
        return []
    item.kind, item.classes = "words", frozenset({"neutral"})
    return [{"field": field.name, "value": reading.value - dt.timedelta(days=1), "item": item, "sure": reading.sure}]
