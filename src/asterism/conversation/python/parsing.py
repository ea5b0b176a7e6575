"""Parse a value of a type from a person's words.

What is not certain is no value here: of two numbers where one is expected, none is chosen, and "not Friday" is no date.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
import types
import typing
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import inspect

from asterism.words.reading.chart import MAX_DIGITS
from asterism.words.reading.clauses import Trouble, Understanding
from asterism.words.reading.number_words import has_library
from asterism.words.reading.replies import answer_of
from asterism.words.reading.scan import FieldKind, Wanted
from asterism.words.reading.sense import understand
from asterism.words.reading.setting import Setting
from asterism.words.reading.spoken import with_weekday
from asterism.words.reading.tokens import MAX_READ, fold

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
_KINDS: dict[Any, FieldKind] = {
    str: "text",
    bool: "yes_no",
    int: "whole",
    float: "number",
    Decimal: "number",
    dt.date: "date",
    dt.time: "time",
    dt.datetime: "moment",
    dt.timedelta: "duration",
}
TIME_OF = "{} (time)"
"""Name under which the time of a datetime field is read."""


def bare(annotation: Any) -> tuple[Any, bool]:
    """Return the type without ``None``, and True if it had one."""
    parts = [part for part in typing.get_args(annotation) if part is not types.NoneType]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType) and len(parts) < len(typing.get_args(annotation)):
        return (parts[0] if len(parts) == 1 else typing.Union[tuple(parts)]), True  # noqa: UP007 - built at run time
    return annotation, False


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


def kind_of(kind: Any) -> FieldKind:
    """Return how values of a type are read."""
    if options_of(kind):
        return "option"
    if typing.get_origin(kind) is list:
        return "list"
    return _KINDS.get(kind, "other") if isinstance(kind, type) else "other"


def parse(kind: Any, text: str, at: float | Setting, wanted: Wanted | None = None) -> Any:
    """Return the value of a type that a text gives.

    Args:
        kind: the type, without None.
        text: the text.
        at: the setting of the message; or its time, in seconds since the epoch, for English and UTC.
        wanted: the field, as a reader sees it; by default one without labels and units.

    Raises:
        ValueError: the text gives no value, more than one, or only a guess; the message is for the person.
    """
    setting = at if isinstance(at, Setting) else Setting(at=at)
    words = text.strip()
    if not words:
        raise ValueError(setting.words.text("empty"))
    how = kind_of(kind)
    if how == "text":
        return words
    if how == "list":
        (item,) = typing.get_args(kind)
        if item is not str and len(words) > MAX_READ:
            raise ValueError(setting.words.text("none_list", text=repr(f"{words[:60]}…")))
        links = "|".join(
            rf"\b{re.escape(' '.join(phrase[:-1]))}\b"
            for phrase, key in setting.words.phrases["words"].items()
            if key == "and" and phrase[0].isalpha()
        )
        return [
            parse(item, part, setting)
            for part in re.split(rf"\s*(?:,|;|{links})\s*", re.sub(r"\s+", " ", words), flags=re.IGNORECASE)
            if part
        ]
    if how == "other":
        return _by_library(kind, words, setting)
    field = wanted or Wanted(name="value", kind=how, options=tuple(options_of(kind)))
    if (exact := exact_value(kind, words, setting)) is not None:
        return exact
    found = understand(words, setting, parts_of([field]), field.name)
    read = joined(found, [field], setting).taken.get(field.name)
    if read is not None and not read.sure and not found.unknown and not found.negates:
        meant = with_weekday(converted(kind, read.value, setting), setting.words)
        raise ValueError(setting.words.text("unclear", text=repr(words), value=meant))
    if read is None or not read.sure:
        raise ValueError(why_not(field, words, found, setting))
    return converted(kind, read.value, setting)


def exact_value(kind: Any, words: str, setting: Setting) -> Any:  # noqa: PLR0911 - one return for each type
    """Return the value of a text in the form of ISO 8601, of an option's name, or of a plain yes or no; None for any other text."""
    if options := options_of(kind):
        said = fold(words).strip(" .,;:!?\"'")
        return next((option for name, option in options.items() if said in (fold(name), fold(str(getattr(option, "name", name))))), None)
    if kind is bool:
        answer = answer_of(words, setting.language)
        return (
            answer
            if answer is not None
            else {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}.get(fold(words))
        )
    try:
        if kind is dt.datetime and re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", words):
            return dt.datetime.fromisoformat(words)
        if kind is dt.date and re.fullmatch(r"\d{4}-\d\d-\d\d", words):
            return dt.date.fromisoformat(words)
        if kind is dt.timedelta and words[:1] == "P":
            return msgspec.convert(words, dt.timedelta)
    except (ValueError, msgspec.ValidationError):
        return None
    return None


def _by_library(kind: Any, words: str, setting: Setting) -> Any:
    try:
        return msgspec.convert(words, kind, strict=False)
    except msgspec.ValidationError:
        raise ValueError(setting.words.text("none_other", text=repr(words))) from None


def parts_of(fields: Sequence[Wanted]) -> list[Wanted]:
    """Return fields as a reader takes them: a datetime is read as a date and a time."""
    found: list[Wanted] = []
    for field in fields:
        if field.kind != "moment":
            found.append(field)
            continue
        given = field.given
        found.append(msgspec.structs.replace(field, kind="date", given=given.date() if given else None))
        time = msgspec.structs.replace(
            field, name=TIME_OF.format(field.name), kind="time", labels=(), given=given.timetz() if given else None
        )
        found.append(time)
    return found


def joined(found: Understanding, fields: Sequence[Wanted], setting: Setting) -> Understanding:
    """Return what was understood, with the date and the time of each datetime as one value."""
    for field in fields:
        if field.kind != "moment":
            continue
        day, time = found.taken.pop(field.name, None), found.taken.pop(TIME_OF.format(field.name), None)
        parts = [it for it in (day, time) if it is not None]
        if not parts:
            continue
        if (day is None or time is None) and field.given is None:
            found.troubles.append(Trouble(why="part", text=parts[0].text, fields=(field.name,)))
            continue
        on = day.value if day is not None else field.given.date()
        at = time.value if time is not None else field.given.time()
        value = dt.datetime.combine(on, at, tzinfo=setting.now.tzinfo)
        text = " ".join(it.text for it in sorted(parts, key=lambda it: it.start))
        found.taken[field.name] = msgspec.structs.replace(parts[0], value=value, text=text, sure=all(it.sure for it in parts))
    return found


def converted(kind: Any, value: Any, setting: Setting) -> Any:
    """Return a value that was read as a value of a type.

    Raises:
        ValueError: it is none of the type; the message is for the person.
    """
    if options := options_of(kind):
        return options[value]
    if isinstance(value, Decimal):
        if len(value.as_tuple().digits) > MAX_DIGITS:
            raise ValueError(setting.words.text("too_long"))
        if kind is int:
            if value != int(value):
                raise ValueError(setting.words.text("whole_number"))
            return int(value)
        return float(value) if kind is float else value
    return value


def why_not(field: Wanted, text: str, found: Understanding, setting: Setting) -> str:
    """Return why a text gives no value for a field."""
    words = setting.words
    for trouble in found.troubles:
        if not trouble.fields or field.name in trouble.fields or TIME_OF.format(field.name) in trouble.fields:
            if trouble.why == "none":
                return trouble.about
            if trouble.why in ("not", "or", "if", "two", "range", "part", "other"):
                return words.text(trouble.why, text=repr(trouble.text))
    currencies = words.vocabulary("currencies")
    if len(field.unit) == 3 and any(it.why == "foreign" and set(fold(it.text).split()) & currencies for it in found.troubles):  # noqa: PLR2004 - a currency
        return words.text("other_currency", unit=field.unit)
    if max(map(len, re.findall(r"\d+", text)), default=0) > MAX_DIGITS:
        return words.text("too_long")
    if field.kind in ("whole", "number", "date", "time", "duration") and not has_library() and found.unknown:
        return f"{_none(field, text, setting)}; {words.text('needs_extra', text=repr(found.unknown[0]))}"
    return _none(field, text, setting)


def _none(field: Wanted, text: str, setting: Setting) -> str:
    shown = repr(text if len(text) <= 60 else f"{text[:60]}…")  # noqa: PLR2004 - enough to see what is meant
    return setting.words.text(f"none_{field.kind}", text=shown, today=setting.today.isoformat(), options=", ".join(field.options))
