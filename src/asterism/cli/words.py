"""Values in words, and foreign text made harmless: what a device or a plan says may hold anything, a terminal obeys some of it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

from asterism.constellation.task import TaskStar

MAX_FIELDS = 8
"""Fields of a result that a line shows."""
MAX_VALUE = 40
"""Characters of one field."""

_MINUTE, _HOUR, _DAY, _AGES = 60.0, 3600.0, 86400.0, 1e12


def plain(text: object, limit: int = 300) -> str:
    """Text as one line without control characters, direction marks or other things that cannot be seen.

    Args:
        text: anything; its ``str`` is shown.
        limit: characters of the line; what is longer ends in an ellipsis.
    """
    whole = str(text)
    line = _spelled_out(" ".join(whole[: limit * 4].split()))
    return line if len(line) <= limit and len(whole) <= limit * 4 else line[: limit - 1] + "…"


def message(text: object) -> str:
    """An error message for a terminal: nothing in it is obeyed, and each line but the first is indented, as no message begins."""
    first, *more = str(text).split("\n")
    return "\n".join([_spelled_out(first), *(_spelled_out(line if line.startswith("  ") else f"  {line}") for line in more)])


def _spelled_out(line: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in line)


def last_line(text: str) -> str:
    """The last line that says anything: what a device reported most recently."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def preview(value: Any, limit: int = 160) -> str:
    """A JSON value in one line: the fields of an object as ``name=value``, anything else as JSON."""
    if isinstance(value, Mapping):
        shown = [f"{name}={_field(item)}" for name, item in list(value.items())[:MAX_FIELDS]]
        more = [f"… {len(value) - MAX_FIELDS} more"] if len(value) > MAX_FIELDS else []
        return plain(" ".join([*shown, *more]), limit)
    return plain(json.dumps(value, ensure_ascii=False), limit)


def _field(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), MAX_VALUE * 10)
    if len(text) <= MAX_VALUE:
        return text
    # Of a path, the end says what it is.
    return f"…{text[1 - MAX_VALUE :]}" if "/" in text and " " not in text else plain(text, MAX_VALUE)


def duration(seconds: float) -> str:
    """A length of time, as exact as one wants to read it."""
    if seconds < _MINUTE:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"  # noqa: PLR2004 - two digits are enough
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min {int(seconds % _MINUTE):02} s"
    if seconds < _DAY:
        return f"{int(seconds // _HOUR)} h {int(seconds % _HOUR // _MINUTE):02} min"
    if not seconds < _AGES:
        return f"{seconds:g} s"
    return f"{int(seconds // _DAY)} d {int(seconds % _DAY // _HOUR):02} h"


def moment(at: float) -> str:
    """A point in time, here: date and time of day."""
    return _local(at, "%Y-%m-%d %H:%M:%S")


def time_of_day(at: float) -> str:
    """The time of day, here."""
    return _local(at, "%H:%M:%S")


def count(number: int, noun: str) -> str:
    """``1 task``, ``2 tasks``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _local(at: float, form: str) -> str:
    try:
        return f"{dt.datetime.fromtimestamp(at, tz=dt.UTC).astimezone():{form}}"
    except (OverflowError, ValueError, OSError):  # one row that was changed, or a limit of many ages, must not hide the others
        return f"no time of this calendar ({at:g} s)"


def place_of(task: TaskStar) -> str:
    """Where a task is carried out: its device, or how many tasks its own constellation has."""
    if task.constellation is None:
        return plain(task.device)
    return f"({count(len(task.constellation['tasks']), 'task')} of its own)"
