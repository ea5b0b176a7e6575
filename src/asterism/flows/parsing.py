"""Parse a value of a type from a person's words, by rules: one number, one date, or one named option.

Of two numbers where one is expected, none is chosen. "Tomorrow" counts from the time of the message, in UTC.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
import types
import typing
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import inspect

from asterism.language.replies import denial, is_yes
from asterism.language.tokens import plain, spaced
from asterism.language.vocabulary import FALSE_WORDS, MONTHS, NUMBERS, TRUE_WORDS, WEEKDAYS

_NUMBER = re.compile(r"(?<![\w.])(?<!\d,)[-+]?(?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?+(?![\w]|[.,]\d)")
_NOT_PLAIN = re.compile(
    r"\b(?:thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|billion|dozen|half|quarter|point|minus|negative|not)s?\b"
    r"|\d[.,]\d"
)
"""Words and signs that may change the number found: "two hundred", "minus 5", "1,5"."""
_TIME = re.compile(r"\b(\d{1,2})(?::(\d{2}))?\s*(am|pm)?\b", re.IGNORECASE)
MAX_DIGITS = 300
"""Digits of a number at most, so that it is finite and fits every journal."""
SPOKEN = "a str, int, float, bool, Decimal, date, time, datetime, timedelta, UUID, an enumeration, a Literal, or a list of one of these"
"""The types that a message can give, in words."""
_SPOKEN = (
    inspect.AnyType,
    inspect.StrType,
    inspect.IntType,
    inspect.FloatType,
    inspect.BoolType,
    inspect.DecimalType,
    inspect.DateType,
    inspect.TimeType,
    inspect.DateTimeType,
    inspect.TimeDeltaType,
    inspect.UUIDType,
)


def bare(annotation: Any) -> tuple[Any, bool]:
    """Return the type without ``None``, and True if it had one."""
    parts = [part for part in typing.get_args(annotation) if part is not types.NoneType]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType) and len(parts) < len(typing.get_args(annotation)):
        return (parts[0] if len(parts) == 1 else typing.Union[tuple(parts)]), True  # noqa: UP007 - built at run time
    return annotation, False


def parse(kind: Any, text: str, at: float) -> Any:
    """Return the value of a type that a text gives.

    Args:
        kind: the type, without None.
        text: the text.
        at: time of the message, in seconds since the epoch.

    Raises:
        ValueError: the text gives no value, or more than one; the message is for the person.
    """
    words = text.strip()
    if not words:
        raise ValueError("the message is empty")
    if options := options_of(kind):
        return _option(options, words)
    today = dt.datetime.fromtimestamp(at, tz=dt.UTC).date()
    by_kind: Mapping[Any, Callable[[], Any]] = {
        str: lambda: words,
        bool: lambda: _yes_or_no(words),
        int: lambda: _whole(words),
        float: lambda: float(_number(words)),
        Decimal: lambda: Decimal(_number(words)),
        dt.date: lambda: _date(words, today),
        dt.time: lambda: _time(words),
        dt.datetime: lambda: _moment(words, today),
    }
    if kind in by_kind:
        return by_kind[kind]()
    if typing.get_origin(kind) is list:
        (item,) = typing.get_args(kind)
        return [parse(item, part, at) for part in re.split(r"\s*(?:,|;|\band\b)\s*", spaced(words)) if part]
    try:
        return msgspec.convert(words, kind, strict=False)
    except msgspec.ValidationError:
        raise ValueError(f"I cannot make out {words!r}") from None


def is_spoken(kind: Any) -> bool:
    """Return True if a text can give a value of a type."""
    if typing.get_origin(kind) is list:
        return is_spoken(*typing.get_args(kind))
    parts = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    return any(options_of(part) or isinstance(inspect.type_info(part), _SPOKEN) for part in parts)


def options_of(kind: Any) -> dict[str, Any]:
    """Return the values of an enumeration or a Literal by name; empty for other types."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {str(option.value): option for option in kind}
    return {str(option): option for option in typing.get_args(kind)} if typing.get_origin(kind) is typing.Literal else {}


def _option(options: dict[str, Any], words: str) -> Any:
    said = plain(words)
    for name, option in options.items():
        if said in (plain(name), plain(getattr(option, "name", name))):
            return option
    named = [option for name, option in options.items() if re.search(rf"\b{re.escape(plain(name))}\b", said)]
    if len(named) == 1:
        return named[0]
    raise ValueError(f"it is one of {', '.join(options)}")


def _yes_or_no(words: str) -> bool:
    said = plain(words)
    if is_yes(words) or said in TRUE_WORDS | {"on", "1"}:
        return True
    if denial(words) == "" or said in FALSE_WORDS | {"off", "0"}:
        return False
    raise ValueError("it is yes or no")


def _number(words: str) -> str:
    said = words.lower().replace("\u2212", "-")  # a minus sign rather than a hyphen
    found = {match[0].replace(",", "") for match in _NUMBER.finditer(said)}
    found |= {str(NUMBERS.index(word)) for word in re.findall(r"[a-z]+", said) if word in NUMBERS}
    if len(found) != 1:
        raise ValueError("it is one number" if found else f"I cannot find a number in {words!r}")
    if _NOT_PLAIN.search(_NUMBER.sub(" ", said)):
        raise ValueError("write it in digits, as 1234.50, and nothing else")
    number = found.pop()
    if len(number) > MAX_DIGITS:
        raise ValueError("that number is too long")
    return number


def _whole(words: str) -> int:
    number = Decimal(_number(words))
    if number != int(number):
        raise ValueError("it is a whole number")
    return int(number)


def _date(words: str, today: dt.date) -> dt.date:
    said = plain(words)
    if iso := re.search(r"\b\d{4}-\d{2}-\d{2}\b", said):
        try:
            return dt.date.fromisoformat(iso[0])
        except ValueError:
            raise ValueError(f"there is no {iso[0]}") from None
    found = _named_day(said, today)
    if found is None:
        raise ValueError(f"I cannot find a date in {words!r}; write it as {today.isoformat()}, or as a day of the week")
    return found


def _named_day(said: str, today: dt.date) -> dt.date | None:
    for phrase, days in (("the day after tomorrow", 2), ("day after tomorrow", 2), ("tomorrow", 1), ("today", 0), ("tonight", 0)):
        if re.search(rf"\b{phrase}\b", said):
            return today + dt.timedelta(days=days)
    if found := re.search(r"\bin (\w+) (day|week)s?\b", said):
        count = NUMBERS.index(found[1]) if found[1] in NUMBERS else int(found[1][:9]) if found[1].isdecimal() else 0
        return today + dt.timedelta(days=min(count, 3650) * (7 if found[2] == "week" else 1)) if count else None
    named = [day for day in WEEKDAYS if re.search(rf"\b{day}\b", said)]
    if len(named) == 1:
        ahead = (WEEKDAYS.index(named[0]) - today.weekday()) % 7
        return today + dt.timedelta(days=ahead or 7)
    return _month_day(said, today)


def _month_day(said: str, today: dt.date) -> dt.date | None:
    month = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in MONTHS)
    found = re.search(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({month})\b(?:,? (\d{{4}}))?", said)
    turned = re.search(rf"\b({month}) (\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (\d{{4}}))?", said)
    if found:
        day, name, year = found[1], found[2], found[3]
    elif turned:
        name, day, year = turned[1], turned[2], turned[3]
    else:
        return None
    number = [month[:3] for month in MONTHS].index(name[:3]) + 1
    try:
        date = dt.date(int(year or today.year), number, int(day))
        return date if year or date >= today else date.replace(year=today.year + 1)
    except ValueError:
        raise ValueError(f"there is no {day} {name}") from None


def _time(words: str) -> dt.time:
    said = plain(words)
    if said in ("noon", "midday", "midnight"):
        return dt.time(0 if said == "midnight" else 12)
    times = list(_TIME.finditer(said))
    found = [match for match in times if match[2] or match[3] or len(times) == 1]
    if len(found) != 1:
        raise ValueError(f"I cannot find a time in {words!r}; write it as 19:30 or 7 pm")
    hour, minute, half = int(found[0][1]), int(found[0][2] or 0), (found[0][3] or "").lower()
    hour += 12 if half == "pm" and hour < 12 else -12 if half == "am" and hour == 12 else 0  # noqa: PLR2004 - hours
    try:
        return dt.time(hour, minute)
    except ValueError:
        raise ValueError(f"there is no such time as {found[0][0].strip()}") from None


def _moment(words: str, today: dt.date) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(words.strip())
    except ValueError:
        day = _date(words, today)
    rest = re.sub(r"\d{4}-\d{2}-\d{2}", " ", words)
    return dt.datetime.combine(day, _time(rest), tzinfo=dt.UTC)
