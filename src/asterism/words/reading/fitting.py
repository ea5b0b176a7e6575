"""Which values of a message fit a field, and as what."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from asterism.words.reading.durations import SECONDS
from asterism.words.reading.scan import Item, Scan, Wanted
from asterism.words.reading.values import Reading

FEWEST = 5
"""Fewer minutes than this, said without a unit, may as well be hours."""


def fitted(field: Wanted, item: Item, scan: Scan, *, is_named: bool = False, is_asked: bool = False) -> tuple[Any, bool] | None:
    """Return the value that an item gives for a field, and False if it is a guess; None if it does not fit.

    Args:
        field: the field.
        item: a value of the message.
        scan: the message.
        is_named: True if a label names the field.
        is_asked: True if the field was asked for.
    """
    for reading in item.options:
        if reading.role == "asked" and not is_asked:
            continue
        if not reading.why and (found := _fit(field, reading, item, scan, is_named=is_named, is_asked=is_asked)) is not None:
            is_chosen = field.kind == "time" and bool(reading.others) and not reading.unit  # by the usual hours of the field
            is_open = field.kind == "time" and item.role == "first"  # "from 3" may mean at 3, or not before
            return found[0], found[1] and (reading.sure or is_chosen) and not is_open
    return None


def _fit(  # noqa: PLR0911 - one return for each kind
    field: Wanted, reading: Reading, item: Item, scan: Scan, *, is_named: bool, is_asked: bool
) -> tuple[Any, bool] | None:
    kind, value = reading.kind, reading.value
    if field.kind == "option":
        return (value, True) if kind == "option" and value in field.options else None
    if field.kind == "date":
        if kind == "date":
            is_other_end = (item.role == "last" and not field.end_of) or (item.role == "first" and bool(field.end_of))
            return None if is_other_end else (value, True)
        return _day_number(reading, scan) if kind == "number" and is_asked and not reading.unit else None
    if field.kind == "time":
        if kind == "time":
            return None if item.role == "last" else hour_of(field, reading) if reading.others else (value, True)
        return number_as_time(field, value) if kind == "number" and not reading.unit and (is_asked or is_named) else None
    if field.kind == "duration":
        return (value, True) if kind == "duration" else None
    if field.kind in ("whole", "number"):
        return _as_number(field, reading, is_named=is_named, is_asked=is_asked)
    return None


def _as_number(field: Wanted, reading: Reading, *, is_named: bool, is_asked: bool) -> tuple[Any, bool] | None:
    kind, value, sure = reading.kind, reading.value, True
    if kind == "duration":
        if field.unit not in SECONDS:
            return None
        value = Decimal(str(value.total_seconds())) / SECONDS[field.unit]
    elif kind == "money":
        if field.unit in SECONDS or (field.unit and reading.unit != field.unit) or field.kind == "whole":
            return None
        sure = bool(field.unit)
    elif kind != "number" or (reading.unit and field.unit):  # people are no euros
        return None
    elif field.unit in SECONDS and not (is_named or is_asked):
        return (value, False) if value >= 0 else None
    elif field.unit == "minute" and value < FEWEST:
        sure = False
    if field.unit and field.unit not in SECONDS and value < 0:
        sure = False
    return value, sure


def _day_number(reading: Reading, scan: Scan) -> tuple[Any, bool] | None:
    from asterism.words.reading.dates import NoSuchDateError, _day_of_month  # noqa: PLC0415

    if reading.value != int(reading.value) or not 1 <= reading.value <= 31:  # noqa: PLR2004 - days
        return None
    try:
        return _day_of_month(scan.chart, {"ordinal": int(reading.value)})[0], False
    except NoSuchDateError:
        return None


def number_as_time(field: Wanted, value: Decimal) -> tuple[dt.time, bool] | None:
    """Return the time of a bare hour, and False for a guess; None if it is no hour."""
    if value != int(value) or not 0 <= value < 24:  # noqa: PLR2004 - hours
        return None
    hour = int(value)
    if hour > 12 or hour == 0:  # noqa: PLR2004 - hours
        return dt.time(hour), hour > 12  # noqa: PLR2004 - hours
    early, late = dt.time(hour), dt.time((hour + 12) % 24)
    return hour_of(field, Reading(kind="time", value=late if hour < 7 else early, others=(early if hour < 7 else late,), sure=False))  # noqa: PLR2004 - hours


def hour_of(field: Wanted, reading: Reading) -> tuple[dt.time, bool]:
    """Return the one of two possible times within the usual hours of a field, and False for a guess."""
    both = [reading.value, *reading.others]
    if field.hours is not None and reading.others:
        usual = [it for it in both if field.hours[0] <= it.hour + it.minute / 60 < field.hours[1]]
        if len(usual) == 1:
            return usual[0], True
    return reading.value, reading.sure


def shifted(field: Wanted, reading: Reading) -> Any:
    """Return the value of a field after a change such as "an hour later"; None if it does not apply."""
    step = reading.value
    if reading.unit == "number":
        return field.given + step if field.kind == "whole" and not field.unit and step == int(step) else None
    if field.kind == "date" and isinstance(field.given, dt.date) and step.total_seconds() % 86_400 == 0:
        return field.given + step
    if field.kind == "time" and isinstance(field.given, dt.time) and abs(step.total_seconds()) < 86_400:  # noqa: PLR2004 - a day
        moved = dt.datetime.combine(dt.date(2000, 1, 2), field.given) + step
        return moved.time() if moved.date() == dt.date(2000, 1, 2) else None
    return None
