"""Values in words, for the agent's sentences."""

from __future__ import annotations

import datetime as dt
from typing import Any

from asterism.words.reading.words import TABLES, Words


def value_words(value: Any, words: Words) -> str:
    """Return a value as text for people."""
    if isinstance(value, bool):
        return words.text("yes_word" if value else "no_word")
    if isinstance(value, list):
        return ", ".join(value_words(item, words) for item in value)
    if isinstance(value, dt.time) and not value.second and not value.microsecond:
        return f"{value:%H:%M}"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, dt.timedelta):
        return _duration(value, words)
    return str(getattr(value, "value", value))


def with_weekday(value: Any, words: Words) -> str:
    """Return a value as text for a question about it: a date has its weekday."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        key = TABLES["weekdays"][value.weekday()]
        return f"{words.texts[key]} {value.isoformat()}"
    if isinstance(value, dt.datetime):
        return f"{with_weekday(value.date(), words)} {value_words(value.time(), words)}"
    return value_words(value, words)


def _duration(value: dt.timedelta, words: Words) -> str:
    minutes = value.total_seconds() / 60
    if minutes % 60 == 0 and minutes:
        return f"{minutes / 60:g} {words.texts['hour']}"
    return f"{minutes:g} {words.texts['minute']}"
